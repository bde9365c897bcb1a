#include "nn/kv_cache.h"

#include <algorithm>
#include <cstring>

namespace roundel {

KvCache::KvCache(KvShape shape, int64_t slots) : shape_(shape), slots_(static_cast<size_t>(slots)) {}

KvCache::KvCache(KvShape shape, int64_t slots, Device& device)
    : shape_(shape), slots_(static_cast<size_t>(slots)), device_(&device) {}

float* KvCache::part(int64_t slot, int64_t index) {
  return slots_[static_cast<size_t>(slot)].data.as<float>() + index * shape_.kv_heads * stride(slot);
}

void KvCache::reserve(int64_t slot, int64_t positions) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  if (positions <= s.capacity) return;
  const int64_t capacity = round_up(positions, 64);
  if (device_) return reserve_on_device(s, capacity);
  const int64_t d = shape_.head_dim;
  const int64_t heads = 2 * shape_.layers * shape_.kv_heads;
  Buffer grown(static_cast<size_t>(heads * capacity * d) * sizeof(float));
  for (int64_t h = 0; h < heads && s.length > 0; ++h)
    std::memcpy(grown.as<float>() + h * capacity * d, s.data.as<float>() + h * s.capacity * d,
                static_cast<size_t>(s.length * d) * sizeof(float));
  s.data = std::move(grown);
  s.capacity = capacity;
}

void KvCache::reserve_on_device(Slot& s, int64_t capacity) {
  const size_t heads = static_cast<size_t>(2 * shape_.layers * shape_.kv_heads);
  const size_t row = static_cast<size_t>(shape_.head_dim) * 2;
  DeviceBuffer grown(*device_, heads * static_cast<size_t>(capacity) * row, "key/value cache");
  if (s.length > 0) {
    device_->copy_rows(grown.data(), static_cast<size_t>(capacity) * row, s.device_data.data(),
                       static_cast<size_t>(s.capacity) * row, static_cast<size_t>(s.length) * row, heads);
    device_->synchronize();
  }
  s.device_data = std::move(grown);
  s.capacity = capacity;
}

}  // namespace roundel
