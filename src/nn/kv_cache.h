// Keys and values of the tokens that sequences have seen, for every layer: floats in memory, or BF16 on a GPU.
//
//   KvCache cache({.layers = 30, .kv_heads = 3, .head_dim = 64}, slots);
//   cache.reserve(slot, 512);
//   float* k = cache.keys(slot, layer);      // (kv_heads, capacity, D), heads cache.stride(slot) floats apart
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/api/device.h"
#include "tensor/tensor.h"

namespace roundel {

struct KvShape {
  int64_t layers = 0, kv_heads = 0, head_dim = 0;
};

class KvCache {
 public:
  KvCache(KvShape shape, int64_t slots);
  // On a GPU, which outlives the cache. keys() and values() are for caches in memory.
  KvCache(KvShape shape, int64_t slots, Device& device);
  // Room for `positions` tokens; what the slot holds is kept. Throws Error(kLimit) when memory runs out.
  void reserve(int64_t slot, int64_t positions);
  void clear(int64_t slot) { slots_[static_cast<size_t>(slot)].length = 0; }
  int64_t slots() const { return static_cast<int64_t>(slots_.size()); }
  int64_t length(int64_t slot) const { return slots_[static_cast<size_t>(slot)].length; }
  void set_length(int64_t slot, int64_t length) { slots_[static_cast<size_t>(slot)].length = length; }
  float* keys(int64_t slot, int64_t layer) { return part(slot, 2 * layer); }
  float* values(int64_t slot, int64_t layer) { return part(slot, 2 * layer + 1); }
  int64_t stride(int64_t slot) const { return slots_[static_cast<size_t>(slot)].capacity * shape_.head_dim; }
  const KvShape& shape() const { return shape_; }
  // (2 * layers, kv_heads, capacity, D) bf16 on the GPU: a layer's keys, then its values.
  uint16_t* device_data(int64_t slot) const {
    return slots_[static_cast<size_t>(slot)].device_data.as<uint16_t>();
  }
  int64_t capacity(int64_t slot) const { return slots_[static_cast<size_t>(slot)].capacity; }

 private:
  struct Slot {
    Buffer data;
    DeviceBuffer device_data;
    int64_t capacity = 0, length = 0;
  };
  float* part(int64_t slot, int64_t index);
  void reserve_on_device(Slot& slot, int64_t capacity);
  KvShape shape_;
  std::vector<Slot> slots_;
  Device* device_ = nullptr;
};

}  // namespace roundel
