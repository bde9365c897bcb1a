#include "nn/kv_cache.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/fake_device.h"

namespace roundel {
namespace {

std::vector<uint8_t*> pages_of(const KvCache& cache, int64_t slot) {
  uint8_t* const* table = cache.device_pages(slot);
  return {table, table + cache.capacity(slot) / kPageTokens};
}

constexpr KvShape kBig{.layers = 32, .kv_heads = 8, .head_dim = 128};  // pages of 8 MiB

TEST(KvCache, PagesOnADeviceStayWhereTheyAreAndBelongToOneSlot) {
  FakeDevice device(size_t{1} << 32);
  KvCache cache(kBig, 3, device);
  EXPECT_EQ(bytes_per_position(kBig), 131072);
  cache.reserve(0, 1);
  cache.reserve(1, 65);
  const auto first = pages_of(cache, 1);
  ASSERT_EQ(first.size(), 2u);
  cache.reserve(2, 64 * 100);  // another table, too
  cache.reserve(1, 64 * 40);
  const auto grown = pages_of(cache, 1);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), grown.begin()));
  std::set<uint8_t*> all;
  size_t count = 0;
  for (const int64_t slot : {0, 1, 2})
    for (uint8_t* page : pages_of(cache, slot)) {
      all.insert(page);
      ++count;
    }
  EXPECT_EQ(count, 141u);
  EXPECT_EQ(all.size(), count);
  for (auto it = all.begin(); std::next(it) != all.end(); ++it) EXPECT_GE(*std::next(it) - *it, 8 << 20);
  // Each has what it needs, not what the longest has.
  EXPECT_LE(cache.device_bytes(), size_t{146} * (8 << 20));
}

TEST(KvCache, PagesOfAClearedSlotServeOthers) {
  FakeDevice device(size_t{1} << 32);
  KvCache cache(kBig, 2, device);
  cache.reserve(0, 640);
  const size_t bytes = cache.device_bytes();
  for (int i = 0; i < 10; ++i) {
    cache.clear(i % 2);
    cache.reserve(1 - i % 2, 640);
    cache.clear(1 - i % 2);
  }
  EXPECT_EQ(cache.device_bytes(), bytes);
}

TEST(KvCache, WithoutRoomNothingChangesAndLessStillFits) {
  FakeDevice device(size_t{100} << 20);
  KvCache cache(kBig, 2, device);
  cache.reserve(0, 64);
  cache.set_length(0, 60);
  const auto before = pages_of(cache, 0);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(cache.reserve(0, 64 * 20), Error);
    EXPECT_THROW(cache.reserve(1, 64 * 20), Error);
  }
  EXPECT_EQ(pages_of(cache, 0), before);
  EXPECT_EQ(cache.length(0), 60);
  EXPECT_EQ(cache.capacity(1), 0);
  cache.reserve(1, 64 * 10);
  EXPECT_EQ(pages_of(cache, 1).size(), 10u);
  EXPECT_LE(device.allocated(), size_t{100} << 20);
}

TEST(KvCache, CodesOfAByteTakeHalf) {
  KvShape shape = kBig;
  shape.type = KvType::kE4M3;
  EXPECT_EQ(bytes_per_position(shape), 65536);
  FakeDevice device(size_t{1} << 30);
  KvCache cache(shape, 1, device);
  cache.reserve(0, 64 * 64);
  EXPECT_EQ(cache.device_bytes(), size_t{64} * (4 << 20));
}

TEST(KvCache, GrowingKeepsWhatTheSlotHolds) {
  const KvShape shape{.layers = 3, .kv_heads = 2, .head_dim = 4, .type = KvType::kF32};
  KvCache cache(shape, 2);
  cache.reserve(1, 5);
  const auto value = [](int64_t layer, int64_t head, int64_t t, int64_t i, bool key) {
    return static_cast<float>((((layer * 2 + head) * 100 + t) * 4 + i) * 2 + key);
  };
  const auto each = [&](auto fn) {
    for (int64_t layer = 0; layer < 3; ++layer)
      for (int64_t head = 0; head < 2; ++head)
        for (int64_t t = 0; t < 5; ++t)
          for (int64_t i = 0; i < 4; ++i) {
            const int64_t at = head * cache.stride(1) + t * 4 + i;
            fn(cache.keys<float>(1, layer)[at], value(layer, head, t, i, true));
            fn(cache.values<float>(1, layer)[at], value(layer, head, t, i, false));
          }
  };
  each([](float& slot, float v) { slot = v; });
  cache.set_length(1, 5);
  const int64_t before = cache.stride(1);
  cache.reserve(1, 1000);
  EXPECT_GT(cache.stride(1), before);
  EXPECT_EQ(cache.length(1), 5);
  EXPECT_EQ(cache.length(0), 0);
  each([](float& slot, float v) { EXPECT_EQ(slot, v); });
}

TEST(KvCache, ReserveOfLessChangesNothing) {
  KvCache cache({.layers = 1, .kv_heads = 1, .head_dim = 8}, 1);
  cache.reserve(0, 100);
  const uint16_t* keys = cache.keys<uint16_t>(0, 0);
  cache.reserve(0, 20);
  EXPECT_EQ(cache.keys<uint16_t>(0, 0), keys);
}

}  // namespace
}  // namespace roundel
