// Tables of measured tiles: which row serves a problem.
#include "kernels/api/device_tiles.h"

#include <gtest/gtest.h>

namespace roundel {
namespace {

TileRow row(int64_t m, bool whole, Tiles tiles) {
  return {{"a", "int4.g128", 6144, 4096, m, whole}, tiles};
}

const auto kAny = [](const Tiles&) { return true; };

TEST(Tiles, TheNearestClassOfTokensAboveServes) {
  TileTable table;
  table.put(row(16, false, {16}));
  table.put(row(1, false, {1}));
  table.put(row(8, false, {8}));
  const auto tiles = [&](int64_t m) { return table.find(row(m, false, {}).key, kAny)->tiles[0]; };
  EXPECT_EQ(tiles(1), 1);
  EXPECT_EQ(tiles(2), 8);
  EXPECT_EQ(tiles(8), 8);
  EXPECT_EQ(tiles(9), 16);
  EXPECT_EQ(table.find(row(17, false, {}).key, kAny), nullptr);
}

TEST(Tiles, OnlyTheSameProblemServes) {
  TileTable table;
  table.put(row(8, false, {1}));
  const TileKey key = row(8, false, {}).key;
  ASSERT_NE(table.find(key, kAny), nullptr);
  for (int i = 0; i < 5; ++i) {
    TileKey other = key;
    if (i == 0) other.kernel = "b";
    if (i == 1) other.weights = "int4.g64";
    if (i == 2) other.n += 16;
    if (i == 3) other.k += 16;
    if (i == 4) other.whole = true;
    EXPECT_EQ(table.find(other, kAny), nullptr) << i;
  }
}

TEST(Tiles, ARowThatCannotRunGivesWayToTheNext) {
  TileTable table;
  table.put(row(8, false, {99}));
  table.put(row(16, false, {2}));
  const TileRow* found = table.find(row(4, false, {}).key, [](const Tiles& t) { return t[0] < 10; });
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->tiles[0], 2);
}

TEST(Tiles, ANewRowReplacesTheOldOne) {
  TileTable table;
  table.put(row(8, false, {1}));
  table.put(row(8, true, {2}));
  table.put(row(8, false, {3}));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.find(row(8, false, {}).key, kAny)->tiles[0], 3);
}

}  // namespace
}  // namespace roundel
