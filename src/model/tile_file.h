// Tiles that were measured on this machine, kept in the user's cache: one JSON file for each kind of GPU.
//
//   use_tuned_tiles(gpu, folder);                       // at load: what the file says, if there is one
//   TileTable table = read_tiles(file, gpu.info()).value_or(TileTable{});
//   table.put(row);
//   write_tiles(file, gpu.info(), table);
// A file that is damaged, of another GPU or of other kernels is left out with one warning; `roundel tune` writes a new one.
#pragma once
#include <filesystem>
#include <optional>

#include "kernels/api/device.h"
#include "kernels/api/device_tiles.h"

namespace roundel {

// Goes up when a kernel's tiles, or what they cost, change.
constexpr int kTileVersion = 1;

// <folder>/tiles-nvidia-h200-9.0.json
std::filesystem::path tile_file(const std::filesystem::path& folder, const DeviceInfo& info);
// Nothing when there is no such file, or no usable one, which is a warning.
std::optional<TileTable> read_tiles(const std::filesystem::path& file, const DeviceInfo& info);
// Atomic; the folder is made. Throws Error(kIo).
void write_tiles(const std::filesystem::path& file, const DeviceInfo& info, const TileTable& table);
// folder empty: user_cache_folder().
void use_tuned_tiles(Device& device, const std::filesystem::path& folder);

}  // namespace roundel
