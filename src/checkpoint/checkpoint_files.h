// Which safetensors files of a folder are the model: one file, or the shards of an index.
//
//   CheckpointFiles files = find_checkpoint_files(folder);   // throws when the folder does not say so clearly
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors_index.h"

namespace roundel {

struct CheckpointFiles {
  std::vector<std::string> names;  // base names; all exist
  std::optional<SafetensorsIndex> index;
  std::vector<std::string> warnings;  // files that are not read
};

// Throws Error: nothing there (saying what is there instead), shards without an index, an index beside a single file or
// beside shards it does not list, shards that are missing (all of them).
CheckpointFiles find_checkpoint_files(const std::filesystem::path& folder);

}  // namespace roundel
