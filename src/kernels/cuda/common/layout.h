// The packed layout of quantized weights on a GPU, as plain constexpr functions: the kernels and a test on the CPU read it.
//
// A weight is cut into units of 16 rows and 1024 bytes of codes: 128 columns of 4 bits or 64 of 8. In a unit the codes
// lie as the tensor cores' m16n8k16 (and a warp of wgmma's m64k16) wants its A operand, lane by lane, so that a lane
// reads two runs of 16 bytes.
// unit = codes | scales (sets,16) | zero points (sets,16) int8; sets: scales of a row in a unit, 0 when a row has one
// scale, which is kept after all units: row scales (N) float | row zero points (N) int8.
// Units of one row block follow one another along K.
//
// Bytes with one scale a row and no zero point are plain rows instead, whose columns are exchanged as byte_place() says
// (kernels/api/device_ops.h): tensor cores multiply them as they are, and so does cuBLASLt; int8 is signed there.
// A "unit" is 16 rows and 128 columns then. Row scales follow as above; FP8 blocks (LinearProblem::fp8_blocks) are such rows
// with one scale for each block instead: row scales (blocks of rows, scale_row) float, as cuBLASLt reads them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/api/device_linear.h"
#include "kernels/api/device_ops.h"

namespace roundel::cuda {

constexpr int64_t kUnitRows = 16;
constexpr int64_t kUnitCodeBytes = 1024;

struct UnitLayout {
  int64_t n = 0, k = 0, group = 0;
  int bits = 4;         // 4 or 8, of a stored code
  bool rows = false;    // plain rows of bytes
  bool e4m3 = false;    // else integers, in units stored with an offset of 2^(bits-1)
  bool blocks = false;  // rows of E4M3 with scales of blocks
  bool zero = false;
  bool wide_scale = false;  // float instead of bf16
  int64_t unit_k = 0;       // columns of a unit
  int64_t sets = 0;
  int64_t units_k = 0, units_n = 0;
  int64_t unit_bytes = 0, scale_bytes = 0;
  int64_t scale_row = 0;                             // of blocks
  int64_t row_scales = 0, row_zeros = 0, bytes = 0;  // offsets, and the size of it all
};

// Group sizes that units can hold: 32, 64, multiples of 128, or one group a row.
constexpr bool unit_group_fits(int64_t group, int64_t k, int bits) {
  return group >= k || group % 128 == 0 || group == 64 || (group == 32 && bits > 0);
}

inline UnitLayout unit_layout(const LinearProblem& p) {
  UnitLayout u;
  u.n = p.n;
  u.k = p.k;
  u.group = p.group;
  u.e4m3 = p.code == CodeType::kE4M3;
  u.bits = !u.e4m3 && p.bits <= 4 ? 4 : 8;
  u.zero = p.has_zero_point;
  u.wide_scale = p.scale_type != ScaleType::kBF16;
  u.blocks = p.fp8_blocks && p.n % kUnitRows == 0;
  u.rows = u.blocks || (u.bits == 8 && p.group >= p.k && !u.zero);
  u.unit_k = u.rows ? kScaleColumns : kUnitCodeBytes * 8 / u.bits / kUnitRows;
  u.sets = u.rows || p.group >= p.k ? 0 : p.group >= u.unit_k ? 1 : u.unit_k / p.group;
  u.units_k = (p.k + u.unit_k - 1) / u.unit_k;
  if (u.bits == 8 && !u.rows) u.units_k = (u.units_k + 1) / 2 * 2;  // whole runs of kScaleColumns
  u.units_n = (p.n + kUnitRows - 1) / kUnitRows;
  u.scale_bytes = u.wide_scale ? 4 : 2;
  u.unit_bytes = u.rows ? kUnitRows * u.unit_k
                        : kUnitCodeBytes + u.sets * kUnitRows * (u.scale_bytes + (u.zero ? 1 : 0));
  u.row_scales = u.units_k * u.units_n * u.unit_bytes;
  if (u.blocks) u.scale_row = (u.units_k + 3) / 4 * 4;
  const int64_t scales = u.blocks      ? (p.n + kFp8Block - 1) / kFp8Block * u.scale_row
                         : u.sets == 0 ? u.units_n * kUnitRows
                                       : 0;
  u.row_zeros = u.row_scales + scales * 4;
  u.bytes = u.row_zeros + (u.sets == 0 && u.zero ? u.units_n * kUnitRows : 0);
  return u;
}

// Where the code of (row, column) of a unit is: its byte, and for 4 bits which half of it.
struct CodePlace {
  int byte = 0;
  int high = 0;
};

constexpr CodePlace code_place(int bits, int row, int column) {
  const int step = column / 16, in16 = column % 16, lane = row % 8 * 4 + in16 % 8 / 2;
  const int high_row = row / 8, high_k = in16 / 8, odd = in16 % 2;
  CodePlace place;
  if (bits == 4) {
    place.byte = step / 4 * 512 + lane * 16 + step % 4 * 4 + high_row + 2 * odd;
    place.high = high_k;
  } else {
    const int word = step * 2 + high_k;
    place.byte = word / 4 * 512 + lane * 16 + word % 4 * 4 + high_row * 2 + odd;
  }
  return place;
}

// Bytes of a plain row.
constexpr int64_t row_bytes(const UnitLayout& u) {
  return u.units_k * u.unit_k;
}

constexpr int64_t unit_offset(const UnitLayout& u, int64_t row, int64_t column) {
  return (row / kUnitRows * u.units_k + column / u.unit_k) * u.unit_bytes;
}

}  // namespace roundel::cuda
