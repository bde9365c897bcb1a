#include "nn/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace roundel {

int64_t bytes_per_position(const KvShape& shape) {
  return 2 * shape.layers * shape.kv_heads * shape.head_dim * kv_bytes(shape.type);
}

KvCache::KvCache(KvShape shape, int64_t slots) : shape_(shape), slots_(static_cast<size_t>(slots)) {}

KvCache::KvCache(KvShape shape, int64_t slots, Device& device)
    : shape_(shape), slots_(static_cast<size_t>(slots)), device_(&device) {}

void* KvCache::part(int64_t slot, int64_t index, size_t value_bytes) {
  const int64_t width = kv_bytes(shape_.type);
  CHECK(value_bytes == static_cast<size_t>(width));
  return slots_[static_cast<size_t>(slot)].data.as<uint8_t>() +
         index * shape_.kv_heads * stride(slot) * width;
}

void KvCache::clear(int64_t slot) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  s.length = 0;
  if (!device_) return;
  free_.insert(free_.end(), s.pages.begin(), s.pages.end());
  s.pages.clear();
  s.capacity = 0;
}

void KvCache::reserve(int64_t slot, int64_t positions) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  if (positions <= s.capacity) return;
  if (device_) return reserve_on_device(s, positions);
  const int64_t capacity = round_up(positions, 64);
  const int64_t row = shape_.head_dim * kv_bytes(shape_.type), heads = 2 * shape_.layers * shape_.kv_heads;
  Buffer grown(static_cast<size_t>(heads * capacity * row));
  for (int64_t h = 0; h < heads && s.length > 0; ++h)
    std::memcpy(grown.as<uint8_t>() + h * capacity * row, s.data.as<uint8_t>() + h * s.capacity * row,
                static_cast<size_t>(s.length * row));
  s.data = std::move(grown);
  s.capacity = capacity;
}

size_t KvCache::page_bytes() const {
  return static_cast<size_t>(bytes_per_position(shape_) * kPageTokens);
}

size_t KvCache::device_bytes() const {
  size_t total = 0;
  for (const DeviceBuffer& slab : slabs_) total += slab.size();
  return total;
}

// At least `count` more free pages; more, so that pieces are not small, where there is room.
void KvCache::make_pages(size_t count) {
  constexpr size_t kUsualSlab = 16 << 20;
  const size_t bytes = page_bytes(), usual = std::max(count, kUsualSlab / bytes);
  size_t made = usual;
  DeviceBuffer slab;
  try {
    slab = DeviceBuffer(*device_, usual * bytes, "key/value cache");
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kLimit || usual == count) throw;
    slab = DeviceBuffer(*device_, count * bytes, "key/value cache");
    made = count;
  }
  free_.reserve(free_.size() + made);
  slabs_.push_back(std::move(slab));
  for (size_t i = made; i > 0; --i) free_.push_back(slabs_.back().data() + (i - 1) * bytes);
}

void KvCache::reserve_on_device(Slot& s, int64_t positions) {
  const size_t had = s.pages.size(), want = static_cast<size_t>((positions + kPageTokens - 1) / kPageTokens);
  DeviceBuffer table;
  const size_t room = s.table.size() / sizeof(uint8_t*);
  if (want > room)
    table = DeviceBuffer(*device_, std::max({want, 2 * room, size_t{32}}) * sizeof(uint8_t*), "page table");
  if (free_.size() < want - had) make_pages(want - had - free_.size());
  s.pages.reserve(want);
  for (size_t i = had; i < want; ++i) {
    s.pages.push_back(free_.back());
    free_.pop_back();
  }
  s.capacity = static_cast<int64_t>(want) * kPageTokens;
  size_t first = had;
  if (!table.empty()) {
    s.table = std::move(table);
    first = 0;
  }
  device_->upload(s.table.data() + first * sizeof(uint8_t*), s.pages.data() + first,
                  (want - first) * sizeof(uint8_t*));
}

}  // namespace roundel
