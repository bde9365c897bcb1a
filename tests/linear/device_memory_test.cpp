// The arena's regions.
#include "linear/device_memory.h"

#include <gtest/gtest.h>

#include "tests/fake_device.h"

namespace roundel {
namespace {

constexpr int64_t kLarge = 40 << 20;

// Addresses of a pass of three blocks, each of which reads what the block before left in region 2.
std::vector<uint8_t*> pass(DeviceArena& arena) {
  std::vector<uint8_t*> all;
  arena.reset();
  all.push_back(arena.take<uint8_t>(kLarge, "the pass's"));
  for (int block = 0; block < 3; ++block) {
    arena.open(1);
    all.push_back(arena.take<uint8_t>(kLarge, "a block's"));
    all.push_back(arena.take<uint8_t>(1000, "a block's"));
    arena.open(2);
    all.push_back(arena.take<uint8_t>(kLarge, "left"));
  }
  arena.open(0);
  all.push_back(arena.take<uint8_t>(kLarge, "the pass's"));
  return all;
}

TEST(DeviceArena, RegionsAreTakenAgainBlockByBlock) {
  FakeDevice device(size_t{1} << 32);
  DeviceArena arena(device);
  const std::vector<uint8_t*> first = pass(arena);
  for (const int block : {1, 2})
    for (const int piece : {1, 2, 3})
      EXPECT_EQ(first[static_cast<size_t>(3 * block + piece)], first[static_cast<size_t>(piece)]);
  const auto apart = [](const uint8_t* a, const uint8_t* b) { return a + kLarge <= b || b + kLarge <= a; };
  for (const size_t i : {0, 1, 3, 10})
    for (const size_t j : {0, 1, 3, 10})
      if (i != j) {
        EXPECT_TRUE(apart(first[i], first[j])) << i << ' ' << j;
      }
  EXPECT_LE(device.allocated(), static_cast<size_t>(4 * kLarge + (8 << 20)));

  EXPECT_EQ(pass(arena), first);  // as recorded graphs need
  const int64_t generation = arena.generation();
  arena.give_back();
  EXPECT_EQ(device.allocated(), 0u);
  EXPECT_GT(arena.generation(), generation);
  pass(arena);
}

// A block of large pieces after one of small ones: those make room, and what was recorded with them is void.
TEST(DeviceArena, BlocksThatHoldNothingMakeRoom) {
  FakeDevice device(size_t{1} << 32);
  DeviceArena arena(device);
  arena.open(1);
  for (int i = 0; i < 3; ++i) arena.take<uint8_t>(20 << 20, "small");
  const int64_t generation = arena.generation();
  arena.open(1);
  arena.take<uint8_t>(1 << 20, "small");
  EXPECT_EQ(arena.generation(), generation);
  arena.take<uint8_t>(100 << 20, "large");
  EXPECT_EQ(device.allocated(), static_cast<size_t>(120 << 20));
  EXPECT_GT(arena.generation(), generation);
  for (int again = 0; again < 2; ++again) {
    arena.open(1);
    arena.take<uint8_t>(1 << 20, "small");
    arena.take<uint8_t>(100 << 20, "large");
    arena.open(1);
    for (int i = 0; i < 3; ++i) arena.take<uint8_t>(20 << 20, "small");
    EXPECT_EQ(device.allocated(), static_cast<size_t>(120 << 20));
  }
}

}  // namespace
}  // namespace roundel
