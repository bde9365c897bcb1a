#include "nn/kv_cache.h"

#include <algorithm>
#include <cstring>

namespace roundel {

KvCache::KvCache(KvShape shape, int64_t slots) : shape_(shape), slots_(static_cast<size_t>(slots)) {}

float* KvCache::part(int64_t slot, int64_t index) {
  return slots_[static_cast<size_t>(slot)].data.as<float>() + index * shape_.kv_heads * stride(slot);
}

void KvCache::reserve(int64_t slot, int64_t positions) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  if (positions <= s.capacity) return;
  const int64_t capacity = round_up(positions, 64);
  const int64_t d = shape_.head_dim;
  const int64_t heads = 2 * shape_.layers * shape_.kv_heads;
  Buffer grown(static_cast<size_t>(heads * capacity * d) * sizeof(float));
  for (int64_t h = 0; h < heads && s.length > 0; ++h)
    std::memcpy(grown.as<float>() + h * capacity * d, s.data.as<float>() + h * s.capacity * d,
                static_cast<size_t>(s.length * d) * sizeof(float));
  s.data = std::move(grown);
  s.capacity = capacity;
}

}  // namespace roundel
