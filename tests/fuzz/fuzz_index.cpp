// model.safetensors.index.json: what is accepted names only plain files, and is the same after writing and reading.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "checkpoint/safetensors_index.h"
#include "json_mutator.h"

namespace {

const roundel::fuzz::Words kWords = {"metadata",         "total_size",
                                     "weight_map",       "model.norm.weight",
                                     "a.safetensors",    "../a.safetensors",
                                     "/a.safetensors",   "..",
                                     "x\\y.safetensors", "model-00001-of-00002.safetensors",
                                     "model.bin"};

void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return roundel::fuzz::mutate_json_bytes(data, size, max_size, seed, kWords);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace roundel;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const SafetensorsIndex index = parse_safetensors_index(text, "index");
    require(!index.shard_of.empty() && std::is_sorted(index.shards.begin(), index.shards.end()));
    std::vector<std::pair<std::string, std::vector<std::string>>> shards;
    for (const std::string& name : index.shards) {
      require(!name.empty() && name.size() < 256 &&
              name.find_first_of(std::string_view("/\\\0", 3)) == name.npos);
      shards.emplace_back(name, std::vector<std::string>());
    }
    for (const auto& [tensor, shard] : index.shard_of) shards.at(shard).second.push_back(tensor);
    for (const auto& [name, tensors] : shards) require(!tensors.empty());
    const uint64_t total = index.total_size.value_or(7);
    const SafetensorsIndex again = parse_safetensors_index(make_safetensors_index(shards, total), "written");
    require(again.shards == index.shards && again.shard_of == index.shard_of && again.total_size == total);
  } catch (const Error&) {
  }
  return 0;
}
