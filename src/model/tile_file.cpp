#include "model/tile_file.h"

#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "roundel/version.h"

namespace roundel {
namespace {

constexpr char kFormat[] = "roundel tiles";
constexpr JsonLimits kLimits{1 << 20, 8};  // thousands of rows
constexpr int64_t kMost = int64_t{1} << 40;

std::string capability(const DeviceInfo& info) {
  return fmt::format("{}.{}", info.major, info.minor);
}

// What a file must say of itself to be used here.
Json identity(const DeviceInfo& info) {
  return {{"format", kFormat},
          {"program", kVersion},
          {"kernels", kTileVersion},
          {"gpu", info.name},
          {"compute_capability", capability(info)}};
}

Tiles tiles_of(const Json& row, const std::string& where) {
  const auto found = row.find("tiles");
  Tiles tiles{};
  if (found == row.end() || !found->is_array() || found->size() != tiles.size())
    fail(ErrorCode::kInvalid, "{}: tiles must be a list of {} numbers", where, tiles.size());
  for (size_t i = 0; i < tiles.size(); ++i) {
    const Json one = {{"tiles", (*found)[i]}};
    tiles[i] = static_cast<int>(require_int(one, "tiles", where, 0, 1 << 16));
  }
  return tiles;
}

TileRow row_of(const Json& json, const std::string& where) {
  if (!json.is_object()) fail(ErrorCode::kInvalid, "{}: not an object", where);
  TileRow row;
  row.key.kernel = require_string(json, "kernel", where);
  row.key.weights = require_string(json, "weights", where);
  row.key.n = require_int(json, "n", where, 1, kMost);
  row.key.k = require_int(json, "k", where, 1, kMost);
  row.key.m = require_int(json, "m", where, 1, kMost);
  const auto whole = optional_bool(json, "whole", where);
  if (!whole) fail(ErrorCode::kInvalid, "{}: whole must be true or false", where);
  row.key.whole = *whole;
  row.tiles = tiles_of(json, where);
  row.us = optional_number(json, "us", where, 0, 1e9).value_or(0);
  row.default_us = optional_number(json, "default_us", where, 0, 1e9).value_or(0);
  return row;
}

}  // namespace

std::filesystem::path tile_file(const std::filesystem::path& folder, const DeviceInfo& info) {
  std::string name;
  for (const char c : info.name.empty() ? std::string("gpu") : info.name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
    const bool capital = c >= 'A' && c <= 'Z';
    name += plain ? c : capital ? static_cast<char>(c - 'A' + 'a') : '-';
  }
  return folder / fmt::format("tiles-{}-{}.json", name.substr(0, 100), capability(info));
}

std::optional<TileTable> read_tiles(const std::filesystem::path& file, const DeviceInfo& info) {
  std::error_code none;
  if (!std::filesystem::exists(file, none)) return std::nullopt;
  try {
    const Json json = read_json_file(file, kLimits);
    const std::string name = file.string();
    if (!json.is_object()) fail(ErrorCode::kInvalid, "{}: not an object", name);
    const Json here = identity(info);
    for (const auto& [field, want] : here.items()) {
      const auto found = json.find(field);
      if (found == json.end() || *found != want)
        fail(ErrorCode::kInvalid, "{}: {} is {}, here it is {}", name, field,
             found == json.end() ? "not given" : found->dump(), want.dump());
    }
    const auto rows = json.find("rows");
    if (rows == json.end() || !rows->is_array()) fail(ErrorCode::kInvalid, "{}: rows is not a list", name);
    TileTable table;
    for (const Json& row : *rows) table.put(row_of(row, name + ": rows"));
    return table;
  } catch (const std::exception& e) {
    log_warn("measured tiles are not used (roundel tune measures them again): {}", e.what());
    return std::nullopt;
  }
}

void write_tiles(const std::filesystem::path& file, const DeviceInfo& info, const TileTable& table) {
  static std::atomic<int> writers{0};
  Json json = identity(info), rows = Json::array();
  for (const TileRow& row : table.rows)
    rows.push_back({{"kernel", row.key.kernel},
                    {"weights", row.key.weights},
                    {"n", row.key.n},
                    {"k", row.key.k},
                    {"m", row.key.m},
                    {"whole", row.key.whole},
                    {"tiles", row.tiles},
                    {"us", row.us},
                    {"default_us", row.default_us}});
  json["rows"] = rows;
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error)
    fail(ErrorCode::kIo, "{}: cannot make the folder: {}", file.parent_path().string(), error.message());
  std::filesystem::path mine = file;  // of several writers the last one wins
  mine += fmt::format(".{}.{}", ::getpid(), writers++);
  try {
    write_text_file(mine, dump_json(json));
    std::filesystem::rename(mine, file);
  } catch (const std::filesystem::filesystem_error& e) {
    std::filesystem::remove(mine, error);
    fail(ErrorCode::kIo, "{}: cannot rename into place: {}", file.string(), e.code().message());
  } catch (const Error&) {
    std::filesystem::remove(mine += ".new", error);  // write_text_file's own
    throw;
  }
}

void use_tuned_tiles(Device& device, const std::filesystem::path& folder) {
  const std::filesystem::path where = folder.empty() ? user_cache_folder() : folder;
  if (where.empty()) return;
  if (auto table = read_tiles(tile_file(where, device.info()), device.info()))
    device.use_tuned(std::make_shared<const TileTable>(std::move(*table)));
}

}  // namespace roundel
