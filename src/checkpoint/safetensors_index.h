// model.safetensors.index.json: which shard holds which tensor.
//
//   SafetensorsIndex index = parse_safetensors_index(text, "model.safetensors.index.json");
//   const std::string& shard = index.shards[index.shard_of.at("model.norm.weight")];
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roundel {

inline constexpr const char* kIndexFile = "model.safetensors.index.json";
inline constexpr const char* kSingleFile = "model.safetensors";

struct SafetensorsIndex {
  std::vector<std::string> shards;                        // base names, sorted, each used by a tensor
  std::map<std::string, uint32_t, std::less<>> shard_of;  // tensor -> number in `shards`
  std::optional<uint64_t> total_size;                     // of metadata
  std::vector<std::string> warnings;                      // a total_size that is no number
};

// `name` is the file for messages. Throws Error(kInvalid) that lists every entry whose shard is not a plain file name:
// a path would let a checkpoint open files outside its folder.
SafetensorsIndex parse_safetensors_index(std::string_view text, const std::string& name);
// The text of an index, keys sorted, indent 2. `shards` pairs a file name with its tensors.
std::string make_safetensors_index(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& shards, uint64_t total_size);

}  // namespace roundel
