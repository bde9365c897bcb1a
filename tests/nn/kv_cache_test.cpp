#include "nn/kv_cache.h"

#include <gtest/gtest.h>

namespace roundel {
namespace {

TEST(KvCache, GrowingKeepsWhatTheSlotHolds) {
  const KvShape shape{.layers = 3, .kv_heads = 2, .head_dim = 4};
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
            fn(cache.keys(1, layer)[at], value(layer, head, t, i, true));
            fn(cache.values(1, layer)[at], value(layer, head, t, i, false));
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
  const float* keys = cache.keys(0, 0);
  cache.reserve(0, 20);
  EXPECT_EQ(cache.keys(0, 0), keys);
}

}  // namespace
}  // namespace roundel
