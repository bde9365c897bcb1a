// Keys and values of the tokens that sequences have seen, for every layer: BF16 or floats in memory, or on a GPU pages of 64
// positions, BF16 or codes of a byte, which sequences take as they grow.
//
//   KvCache cache({.layers = 30, .kv_heads = 3, .head_dim = 64}, slots);
//   cache.reserve(slot, 512);
//   auto* k = cache.keys<uint16_t>(slot, layer);   // (kv_heads, capacity, D), heads cache.stride(slot) values apart
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/api/device.h"
#include "kernels/api/device_ops.h"
#include "tensor/tensor.h"

namespace roundel {

struct KvShape {
  int64_t layers = 0, kv_heads = 0, head_dim = 0;
  KvType type = KvType::kBF16;
};

int64_t bytes_per_position(const KvShape& shape);

class KvCache {
 public:
  KvCache(KvShape shape, int64_t slots);
  // On a GPU, which outlives the cache. keys() and values() are for caches in memory.
  KvCache(KvShape shape, int64_t slots, Device& device);
  // Room for `positions` tokens; what the slot holds is kept. Throws Error(kLimit) when memory runs out; all slots are then
  // as they were.
  void reserve(int64_t slot, int64_t positions);
  // Forgets the slot's tokens; on a GPU its pages are free for other slots.
  void clear(int64_t slot);
  int64_t slots() const { return static_cast<int64_t>(slots_.size()); }
  int64_t length(int64_t slot) const { return slots_[static_cast<size_t>(slot)].length; }
  void set_length(int64_t slot, int64_t length) { slots_[static_cast<size_t>(slot)].length = length; }
  // T: float or uint16_t (bf16), as shape().type is.
  template <class T>
  T* keys(int64_t slot, int64_t layer) {
    return static_cast<T*>(part(slot, 2 * layer, sizeof(T)));
  }
  template <class T>
  T* values(int64_t slot, int64_t layer) {
    return static_cast<T*>(part(slot, 2 * layer + 1, sizeof(T)));
  }
  int64_t stride(int64_t slot) const { return slots_[static_cast<size_t>(slot)].capacity * shape_.head_dim; }
  const KvShape& shape() const { return shape_; }
  int64_t capacity(int64_t slot) const { return slots_[static_cast<size_t>(slot)].capacity; }
  // On the GPU: the addresses of the slot's pages, there too (TokenInfo).
  uint8_t* const* device_pages(int64_t slot) const {
    return slots_[static_cast<size_t>(slot)].table.as<uint8_t*>();
  }
  // On the GPU: of all pages, those in use and free ones.
  size_t device_bytes() const;

 private:
  struct Slot {
    Buffer data;
    std::vector<uint8_t*> pages;
    DeviceBuffer table;  // `pages` on the GPU, with room for more
    int64_t capacity = 0, length = 0;
  };
  void* part(int64_t slot, int64_t index, size_t value_bytes);
  void reserve_on_device(Slot& slot, int64_t positions);
  void make_pages(size_t count);
  size_t page_bytes() const;
  KvShape shape_;
  std::vector<Slot> slots_;
  Device* device_ = nullptr;
  std::vector<DeviceBuffer> slabs_;  // memory of pages, several in one piece
  std::vector<uint8_t*> free_;
};

}  // namespace roundel
