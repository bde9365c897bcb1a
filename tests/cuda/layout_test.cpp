// The packed layout of the GPU, checked without one: every code has its own place, and it is the place from which the
// tensor core's m16n8k16 A operand takes that row and column (PTX ISA, "matrix fragments for mma.m16n8k16").
#include <gtest/gtest.h>

#include <set>

#include "kernels/cuda/common/layout.h"

namespace roundel::cuda {
namespace {

int columns_of(int bits) {
  return bits == 4 ? 128 : 64;
}

TEST(DeviceLayout, EveryCodeOfAUnitHasItsOwnPlace) {
  for (const int bits : {4, 8}) {
    std::set<int> places;
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < columns_of(bits); ++column) {
        const CodePlace p = code_place(bits, row, column);
        ASSERT_GE(p.byte, 0);
        ASSERT_LT(p.byte, kUnitCodeBytes);
        places.insert(p.byte * 2 + p.high);
      }
    EXPECT_EQ(places.size(), static_cast<size_t>(16 * columns_of(bits))) << bits;
  }
}

// The kernels read, for lane l and each step of 16 columns, words whose registers a0..a3 hold rows l/4 and l/4+8: columns
// 2 (l%4) + {0,1} in a0 and a1, 8 further in a2 and a3.
TEST(DeviceLayout, LanesHoldTheOperandOfTheTensorCore) {
  for (const int bits : {4, 8})
    for (int run = 0; run < columns_of(bits) / 32; ++run)
      for (int step = 0; step < 2; ++step)
        for (int lane = 0; lane < 32; ++lane)
          for (int reg = 0; reg < 4; ++reg)
            for (int odd = 0; odd < 2; ++odd) {
              const int row = lane / 4 + 8 * (reg % 2);
              const int column = run * 32 + step * 16 + reg / 2 * 8 + lane % 4 * 2 + odd;
              const CodePlace p = code_place(bits, row, column);
              if (bits == 4) {  // one word a step: nibble 0 of bytes 0, 2 is a0; of 1, 3 a1; nibble 1: a2, a3
                EXPECT_EQ(p.byte, run / 2 * 512 + lane * 16 + run % 2 * 8 + step * 4 + reg % 2 + 2 * odd);
                EXPECT_EQ(p.high, reg / 2);
              } else {  // two words a step: a0 and a1, then a2 and a3
                EXPECT_EQ(p.byte, run * 512 + lane * 16 + step * 8 + reg / 2 * 4 + reg % 2 * 2 + odd);
              }
            }
}

// Plain rows of bytes: 16 bytes in a row hold, for each of four steps of 16 columns, what lane l % 4 = quad of the tensor
// core's A operand takes of it; the two halves of 128 columns lie side by side.
TEST(DeviceLayout, BytesOfARowLieAsLanesTakeThem) {
  std::set<int64_t> places;
  for (int64_t c = 0; c < 384; ++c) {
    EXPECT_EQ(byte_place(c) / 128, c / 128);
    places.insert(byte_place(c));
  }
  EXPECT_EQ(places.size(), 384u);
  for (int half = 0; half < 2; ++half)
    for (int step = 0; step < 4; ++step)
      for (int quad = 0; quad < 4; ++quad)
        for (int upper = 0; upper < 2; ++upper)
          for (int odd = 0; odd < 2; ++odd)
            EXPECT_EQ(byte_place(half * 64 + step * 16 + upper * 8 + quad * 2 + odd),
                      (quad * 2 + half) * 16 + step * 4 + upper * 2 + odd);
}

TEST(DeviceLayout, BytesWithOneScaleARowArePlainRows) {
  LinearProblem p;
  p.n = 40, p.k = 300, p.code = CodeType::kE4M3, p.bits = 8, p.has_scale = true, p.group = 300;
  UnitLayout u = unit_layout(p);
  EXPECT_TRUE(u.rows);
  EXPECT_EQ(row_bytes(u), 384);
  EXPECT_EQ(u.row_scales, 48 * 384);
  EXPECT_EQ(u.bytes, 48 * 384 + 48 * 4);
  p.group = 128;
  EXPECT_FALSE(unit_layout(p).rows);
  p.group = 300, p.code = CodeType::kInt, p.has_zero_point = true;
  EXPECT_FALSE(unit_layout(p).rows);
  p.has_zero_point = false, p.bits = 4;
  EXPECT_FALSE(unit_layout(p).rows);
}

// One scale for each 128 x 128, rows of scales up to a multiple of four.
TEST(DeviceLayout, Fp8BlocksArePlainRowsWithScalesOfBlocks) {
  LinearProblem p;
  p.n = 320, p.k = 1200, p.code = CodeType::kE4M3, p.bits = 8, p.has_scale = true, p.group = 128;
  p.fp8_blocks = true;
  const UnitLayout u = unit_layout(p);
  EXPECT_TRUE(u.rows && u.blocks);
  EXPECT_EQ(row_bytes(u), 1280);
  EXPECT_EQ(u.scale_row, 12);
  EXPECT_EQ(u.row_scales, 320 * 1280);
  EXPECT_EQ(u.bytes, 320 * 1280 + 3 * 12 * 4);
  p.n = 321;
  EXPECT_FALSE(unit_layout(p).blocks);
  EXPECT_FALSE(unit_layout(p).rows);
}

TEST(DeviceLayout, SizesFollowTheScheme) {
  LinearProblem p;
  p.n = 40, p.k = 300, p.code = CodeType::kInt, p.bits = 4, p.has_scale = true, p.group = 64;
  UnitLayout u = unit_layout(p);
  EXPECT_EQ(u.unit_k, 128);
  EXPECT_EQ(u.sets, 2);
  EXPECT_EQ(u.units_k, 3);
  EXPECT_EQ(u.units_n, 3);
  EXPECT_EQ(u.unit_bytes, 1024 + 2 * 16 * 2);
  EXPECT_EQ(u.bytes, 9 * u.unit_bytes);
  p.bits = 8, p.group = 300, p.has_zero_point = true, p.scale_type = ScaleType::kF32;
  u = unit_layout(p);
  EXPECT_EQ(u.sets, 0);
  EXPECT_EQ(u.units_k, 6);  // 5 hold the columns: an even number keeps runs of 128 whole
  EXPECT_EQ(u.unit_bytes, 1024);
  EXPECT_EQ(u.bytes, 18 * 1024 + 48 * 4 + 48);
}

TEST(DeviceLayout, GateAndUpAlternateInBlocksOfEight) {
  const RowMap gate{0, 24}, up{24, 24};
  std::set<int64_t> rows;
  for (int64_t r = 0; r < 24; ++r) {
    EXPECT_EQ(packed_row(gate, r), r / 8 * 16 + r % 8);
    EXPECT_EQ(packed_row(up, r), r / 8 * 16 + 8 + r % 8);
    rows.insert(packed_row(gate, r));
    rows.insert(packed_row(up, r));
  }
  EXPECT_EQ(rows.size(), 48u);
  EXPECT_EQ(packed_row({5, 0}, 3), 8);
}

}  // namespace
}  // namespace roundel::cuda
