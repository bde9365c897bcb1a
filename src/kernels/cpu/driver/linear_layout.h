// The packed weight of all CPU kernels: blocks of 16 rows, so that one vector holds the same column of 16 rows and a
// product needs no sum across lanes.
//
// A block, columns padded with zeros to a multiple of 8 (c = column, r = row of the block):
//   kU4     [k/8][16] u32; byte i of a word = (q[c+i] + 8) | (q[c+4+i] + 8) << 4, i = 0..3
//   kU8     [k/4][16] u32; byte i = q[c+i] + 128                     for products with integer activations
//   kS8     [k][16] s8 = q                                           for products with floats
//   kE4M3   [k][16] u8
//   kBF16   [k/2][16] u32: column c in the low half, c+1 in the high half
//   kF16    [k][16] u16
//   kF32    [k][16] float
// then scales (groups,16) in 16 or 32 bits, zero points (groups,16) int8, and for int8 activations row sums (16)
// float: sum over all columns of (q - zp) * scale, which a zero point of the activations multiplies.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/api/linear.h"

namespace roundel {

enum class WeightForm : uint8_t { kU4, kU8, kS8, kE4M3, kBF16, kF16, kF32 };

struct LinearLayout {
  LinearLayout(WeightForm form, const LinearProblem& problem);

  WeightForm form;
  bool has_scale;  // E4M3 always has one: a NaN code makes its group's scale NaN
  ScaleType scale_type;
  int64_t group, groups;  // of the packed scales
  int64_t padded_k, blocks;
  int64_t scale_bytes;                  // of one scale
  int64_t scales, zeros, sums, stride;  // byte offsets in a block, bytes of a block
  size_t bytes() const { return static_cast<size_t>(blocks * stride); }
};

void pack_linear(const LinearLayout& layout, const LinearProblem& problem, const WeightRows& rows,
                 uint8_t* packed);
// As the reference does it: (q - zp) * scale, rounded to the scale's type.
void unpack_linear_row(const LinearLayout& layout, const LinearProblem& problem, const uint8_t* packed,
                       int64_t row, float* out);

}  // namespace roundel
