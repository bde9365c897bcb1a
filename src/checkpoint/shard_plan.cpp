#include "checkpoint/shard_plan.h"

#include <algorithm>
#include <unordered_set>

#include "checkpoint/quoted.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_index.h"

namespace roundel {
namespace {

constexpr size_t kMaxShards = 99'999;  // five digits in the name

void check_names(const std::vector<TensorSpec>& specs) {
  std::unordered_set<std::string_view> names;
  names.reserve(specs.size());
  for (const TensorSpec& s : specs)
    if (!names.insert(s.name).second)
      fail(ErrorCode::kInvalid, "two tensors would be written under the name {}", in_quotes(s.name));
}

void align(std::vector<TensorSpec>& tensors) {
  uint64_t at = 0;
  bool aligned = true;
  for (const TensorSpec& t : tensors) {
    aligned &= at % dtype_size(t.dtype) == 0;
    at = checked_add(at, t.bytes(), "shard");
  }
  if (aligned) return;
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    return dtype_size(a.dtype) > dtype_size(b.dtype);
  });
}

}  // namespace

std::vector<ShardPlan> plan_shards(std::vector<TensorSpec> specs, uint64_t max_shard_bytes) {
  if (max_shard_bytes == 0) fail(ErrorCode::kUsage, "shards of 0 bytes cannot hold anything");
  check_names(specs);
  std::vector<ShardPlan> shards(1);
  uint64_t filled = 0;
  for (TensorSpec& s : specs) {
    const uint64_t bytes = s.bytes();
    if (filled > 0 && checked_add(filled, bytes, "shard") > max_shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    filled = checked_add(filled, bytes, "shard");
    shards.back().tensors.push_back(std::move(s));
  }
  if (shards.size() > kMaxShards)
    fail(ErrorCode::kLimit, "{} shards of at most {} bytes are too many; choose larger ones", shards.size(),
         max_shard_bytes);
  for (size_t i = 0; i < shards.size(); ++i) {
    ShardPlan& shard = shards[i];
    shard.file_name = shards.size() == 1
                          ? kSingleFile
                          : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    align(shard.tensors);
    shard.header = make_safetensors_header(shard.tensors, {{"format", "pt"}});
    uint64_t data = 0;
    for (const TensorSpec& t : shard.tensors) data = checked_add(data, t.bytes(), "shard");
    shard.file_bytes = checked_add(shard.header.size(), data, "shard");
  }
  return shards;
}

}  // namespace roundel
