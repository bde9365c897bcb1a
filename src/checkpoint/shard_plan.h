// How tensors are laid out in safetensors files: which shard, in which order, at which position.
//
//   std::vector<ShardPlan> shards = plan_shards(specs, 5ull << 30);
//   shards[0].file_name;   // "model.safetensors", or "model-00001-of-00003.safetensors"
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace roundel {

struct ShardPlan {
  std::string file_name;
  std::vector<TensorSpec> tensors;  // in data order
  std::string header;               // length prefix and JSON
  uint64_t file_bytes = 0;
};

// Fills shards in the given order; a shard holds at most `max_shard_bytes` of tensor data unless a single tensor is
// larger. Inside a shard the order is kept too, except where a tensor would not be aligned to its elements, which readers
// that map the file do not like: then the shard is sorted by element size, largest first, as the original writer does it.
// Throws Error: duplicate names, sizes.
std::vector<ShardPlan> plan_shards(std::vector<TensorSpec> specs, uint64_t max_shard_bytes);

}  // namespace roundel
