// Packing and unpacking the units of common/layout.h.
#include "kernels/cuda/common/device.cuh"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

__global__ void __launch_bounds__(256)
    pack_codes_kernel(const UnitLayout u, const DeviceWeightRows rows, uint8_t* packed) {
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x, per_row = u.units_k * u.unit_k / 2;
  if (i >= rows.rows * per_row) return;
  // Columns c and c + 8 of a run of 16 share a byte of 4-bit codes: a thread takes both.
  const int64_t r = i / per_row, half = i % per_row, c = half / 8 * 16 + half % 8;
  const int64_t row = packed_row(rows.map, rows.row0 + r);
  const auto* from = static_cast<const uint8_t*>(rows.codes) + r * u.k;
  uint8_t code[2];
  for (int j = 0; j < 2; ++j) {
    const int64_t column = c + 8 * j;
    const uint8_t offset = u.e4m3 || u.rows ? 0 : static_cast<uint8_t>(1 << (u.bits - 1));
    code[j] = column < u.k ? static_cast<uint8_t>(from[column] + offset) : offset;
  }
  if (u.rows) {
    packed[row * row_bytes(u) + byte_place(c)] = code[0];
    packed[row * row_bytes(u) + byte_place(c + 8)] = code[1];
    return;
  }
  uint8_t* unit = packed + unit_offset(u, row, c);
  const int in_row = static_cast<int>(row % kUnitRows);
  const CodePlace a = code_place(u.bits, in_row, static_cast<int>(c % u.unit_k));
  if (u.bits == 4) {
    unit[a.byte] = static_cast<uint8_t>(code[0] | code[1] << 4);
  } else {
    unit[a.byte] = code[0];
    unit[code_place(u.bits, in_row, static_cast<int>((c + 8) % u.unit_k)).byte] = code[1];
  }
}

__device__ void put_scale(const UnitLayout& u, uint8_t* at, float scale) {
  if (u.wide_scale)
    *reinterpret_cast<float*>(at) = scale;
  else
    *reinterpret_cast<uint16_t*>(at) = float_to_bf16_bits(scale);
}

__host__ __device__ int64_t scales_of_row(const UnitLayout& u) {
  return u.blocks ? u.units_k : u.sets == 0 ? 1 : u.sets * u.units_k;
}

__global__ void __launch_bounds__(256)
    pack_scales_kernel(const UnitLayout u, int64_t groups, const DeviceWeightRows rows, uint8_t* packed) {
  wait_for_previous();
  const int64_t sets = scales_of_row(u);
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i >= rows.rows * sets) return;
  const int64_t r = i / sets, s = i % sets, row = packed_row(rows.map, rows.row0 + r),
                in_row = row % kUnitRows;
  if (u.blocks) {  // the rows of a block have the same
    if (row % kFp8Block == 0)
      reinterpret_cast<float*>(packed + u.row_scales)[row / kFp8Block * u.scale_row + s] =
          rows.scales[r * groups + s];
    return;
  }
  const int64_t column = u.sets == 0 ? 0 : s * (u.unit_k / u.sets),
                group = u.sets == 0 ? 0 : column / u.group;
  const bool padding = group >= groups;
  const float scale = padding ? 0.0f : rows.scales[r * groups + group];
  const int8_t zero = u.zero && !padding ? rows.zero_points[r * groups + group] : int8_t{0};
  if (u.sets == 0) {
    reinterpret_cast<float*>(packed + u.row_scales)[row] = scale;
    if (u.zero) reinterpret_cast<int8_t*>(packed + u.row_zeros)[row] = zero;
    return;
  }
  uint8_t* after = packed + unit_offset(u, row, column) + kUnitCodeBytes;
  const int64_t at = s % u.sets * kUnitRows + in_row;
  put_scale(u, after + at * u.scale_bytes, scale);
  if (u.zero) after[u.sets * kUnitRows * u.scale_bytes + at] = static_cast<uint8_t>(zero);
}

__device__ __forceinline__ float byte_value(uint32_t byte, bool e4m3) {
  if (!e4m3) return static_cast<float>(static_cast<int8_t>(byte));
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(byte), __NV_E4M3)));
}

__device__ float code_at(const UnitLayout& u, const uint8_t* packed, int64_t at_row, int64_t at_column) {
  if (u.rows) return byte_value(packed[at_row * row_bytes(u) + byte_place(at_column)], u.e4m3);
  const uint8_t* unit = packed + unit_offset(u, at_row, at_column);
  const int row = static_cast<int>(at_row % kUnitRows), column = static_cast<int>(at_column % u.unit_k);
  const CodePlace p = code_place(u.bits, row, column);
  if (u.bits == 4) return static_cast<float>((unit[p.byte] >> (4 * p.high) & 15) - 8);
  if (u.e4m3) return byte_value(unit[p.byte], true);
  return static_cast<float>(unit[p.byte]) - 128.0f;
}

struct Qparams {
  float scale, zero;
};

__device__ Qparams qparams_at(const UnitLayout& u, const uint8_t* packed, int64_t row, int64_t column) {
  const auto* row_scales = reinterpret_cast<const float*>(packed + u.row_scales);
  if (u.blocks) return {row_scales[row / kFp8Block * u.scale_row + column / kFp8Block], 0.0f};
  if (u.sets == 0)
    return {row_scales[row],
            u.zero ? static_cast<float>(reinterpret_cast<const int8_t*>(packed + u.row_zeros)[row]) : 0.0f};
  const uint8_t* after = packed + unit_offset(u, row, column) + kUnitCodeBytes;
  const int64_t at = column % u.unit_k / (u.unit_k / u.sets) * kUnitRows + row % kUnitRows;
  const uint8_t* scale = after + at * u.scale_bytes;
  return {u.wide_scale ? *reinterpret_cast<const float*>(scale)
                       : bf16_bits_to_float(*reinterpret_cast<const uint16_t*>(scale)),
          u.zero ? static_cast<float>(static_cast<int8_t>(after[u.sets * kUnitRows * u.scale_bytes + at]))
                 : 0.0f};
}

// Two columns of a row from a lane's words of 32 columns: piece 0 to 3 of 8 columns (see code_place), less the zero point,
// scaled, as bf16. `column`: of the first; columns from k on become zero.
template <int kBits, bool kE4M3>
__device__ __forceinline__ uint32_t unpack2(const uint32_t* words, int piece, int high_row, const Qparams& q,
                                            int64_t column, int64_t k) {
  float v[2];
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    float code;
    if constexpr (kBits == 4) {  // a word holds both rows of two pieces
      code = static_cast<float>(
          static_cast<int>(words[piece / 2] >> (8 * high_row + 16 * odd + 4 * (piece % 2)) & 15) - 8);
    } else {
      const uint32_t byte = words[piece] >> (16 * high_row + 8 * odd) & 255;
      code = kE4M3 ? __half2float(
                         __half(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(byte), __NV_E4M3)))
                   : static_cast<float>(static_cast<int>(byte) - 128);
    }
    v[odd] = column + odd < k ? (code - q.zero) * q.scale : 0.0f;
  }
  return float_to_bf16_bits(v[0]) | uint32_t{float_to_bf16_bits(v[1])} << 16;
}

// Word j of lane i of four becomes word i of lane j.
__device__ __forceinline__ void transpose4(uint32_t (&w)[4]) {
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int d = 1; d < 4; d *= 2)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (j & d) continue;
      const bool upper = lane & d;
      const uint32_t other = __shfl_xor_sync(~0u, upper ? w[j] : w[j + d], d);
      if (upper)
        w[j] = other;
      else
        w[j + d] = other;
    }
}

// A thread takes 16 bytes of a lane: two rows, and two runs of 32 columns (4 bits) or one (8 bits).
template <int kBits, bool kE4M3>
__global__ void __launch_bounds__(256) unpack_kernel(const UnitLayout u, const uint8_t* packed, int64_t row0,
                                                     int64_t rows, uint16_t* w, int64_t ldw) {
  let_next_start();
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  const int lane = static_cast<int>(i % 32), half = static_cast<int>(i / 32 % 2);
  const int64_t unit = i / 64, tile = row0 / kUnitRows + unit / u.units_k, unit_k = unit % u.units_k;
  if (tile * kUnitRows >= row0 + rows) return;
  const uint8_t* at = packed + (tile * u.units_k + unit_k) * u.unit_bytes;
  const uint4 loaded = *reinterpret_cast<const uint4*>(at + half * 512 + lane * 16);
  const uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
  constexpr int kRuns = kBits == 4 ? 2 : 1;
#pragma unroll
  for (int r = 0; r < kRuns; ++r)
#pragma unroll
    for (int high = 0; high < 2; ++high) {
      const int64_t row = tile * kUnitRows + lane / 4 + 8 * high;
      const int64_t c0 = unit_k * u.unit_k + (half * kRuns + r) * 32;  // of 32 columns, which four lanes hold
      const Qparams q = qparams_at(u, packed, row, c0);
      uint32_t out[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        out[j] = unpack2<kBits, kE4M3>(words + 2 * r, j, high, q, c0 + j * 8 + lane % 4 * 2, u.k);
      transpose4(out);
      const int64_t c = c0 + lane % 4 * 8;
      if (row < row0 + rows && c < ldw)
        *reinterpret_cast<uint4*>(w + (row - row0) * ldw + c) = {out[0], out[1], out[2], out[3]};
    }
}

// 4-bit codes with BF16 scales, one or two sets a unit: a thread takes 16 bytes of a lane, four steps of 16 columns of two
// rows, exchanges them for one step of four lanes and writes 16 columns of each row.
template <int kSets, bool kZero>
__global__ void __launch_bounds__(256)
    unpack_int4_kernel(const uint8_t* packed, int tile0, int tiles, int units_k, int last_row, int k,
                       uint16_t* w, int64_t ldw) {
  let_next_start();
  wait_for_previous();
  constexpr int kBytes = 1024 + kSets * 16 * (kZero ? 3 : 2);
  const int i = blockIdx.x * 256 + threadIdx.x, lane = i % 32, half = i / 32 % 2, unit = i / 64;
  const int tile = unit / units_k, unit_k = unit - tile * units_k, set = kSets == 2 ? half : 0;
  if (tile >= tiles) return;
  const uint8_t* at = packed + (int64_t{tile0 + tile} * units_k + unit_k) * kBytes;
  const uint4 loaded = *reinterpret_cast<const uint4*>(at + half * 512 + lane * 16);
  uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
  transpose4(words);
  const int column = unit_k * 128 + half * 64 + lane % 4 * 16;
#pragma unroll
  for (int high = 0; high < 2; ++high) {
    const int in_tile = lane / 4 + 8 * high, row = tile * 16 + in_tile;
    const uint16_t bits = *reinterpret_cast<const uint16_t*>(at + 1024 + (set * 16 + in_tile) * 2);
    const __nv_bfloat162 scale = __bfloat162bfloat162(__ushort_as_bfloat16(bits));
    const int zero = kZero ? static_cast<int8_t>(at[1024 + kSets * 32 + set * 16 + in_tile]) : 0;
    const __nv_bfloat162 offset = __float2bfloat162_rn(static_cast<float>(136 + zero));
    if (row >= last_row) continue;
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      uint32_t out[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {  // 128 + code; less 136 is exact, and the product is rounded once
        const uint32_t two = (words[j] >> (8 * high + 4 * upper) & 0x000F000Fu) | 0x43004300u;
        const __nv_bfloat162 v =
            __hmul2(__hsub2(reinterpret_cast<const __nv_bfloat162&>(two), offset), scale);
        const int c = column + upper * 8 + 2 * j;
        out[j] = reinterpret_cast<const uint32_t&>(v) & (c + 1 < k ? ~0u : c < k ? 0xffffu : 0u);
      }
      if (column + upper * 8 < ldw)
        *reinterpret_cast<uint4*>(w + row * ldw + column + upper * 8) = {out[0], out[1], out[2], out[3]};
    }
  }
}

// Plain rows of bytes as bf16: a thread takes 16 bytes, four of each 16 of 64 columns; four of them hold the 64.
__global__ void __launch_bounds__(256)
    widen_rows_kernel(const UnitLayout u, const uint8_t* packed, int64_t row0, int64_t rows, uint16_t* w,
                      int64_t ldw) {
  let_next_start();
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x, per_row = row_bytes(u) / 16;
  if (i / 32 * 32 >= rows * per_row) return;  // whole warps, whose lanes exchange words
  const int64_t row = min(i / per_row, rows - 1), piece = i % per_row;
  const int lane = static_cast<int>(piece % 4), half = static_cast<int>(piece / 4 % 2);
  const int64_t run = piece / 8 * kScaleColumns;
  const uint4 loaded =
      *reinterpret_cast<const uint4*>(packed + (row0 + row) * row_bytes(u) + run + lane * 32 + half * 16);
  uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
  transpose4(words);  // now of 16 columns: two, and two 8 further, of each word
  const float scale = qparams_at(u, packed, row0 + row, run).scale;
  const int64_t column = run + half * 64 + lane * 16;
#pragma unroll
  for (int high = 0; high < 2; ++high) {
    uint32_t out[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint32_t two = words[j] >> (16 * high);
      out[j] = float_to_bf16_bits(byte_value(two & 255, u.e4m3) * scale) |
               uint32_t{float_to_bf16_bits(byte_value(two >> 8 & 255, u.e4m3) * scale)} << 16;
    }
    if (i < rows * per_row && column + 8 * high < ldw)
      *reinterpret_cast<uint4*>(w + row * ldw + column + 8 * high) = {out[0], out[1], out[2], out[3]};
  }
}

__global__ void __launch_bounds__(256)
    scale_sums_kernel(const int32_t* sums, int64_t ld_sums, int64_t n, const float* x_scale,
                      const float* w_scale, void* y, int64_t ldy, bool y_bf16) {
  let_next_start();
  wait_for_previous();
  const int64_t i = (blockIdx.x * int64_t{256} + threadIdx.x) * 4, row = blockIdx.y;
  if (i >= n) return;  // n, ld_sums and ldy are multiples of 4
  const int4 s = *reinterpret_cast<const int4*>(sums + row * ld_sums + i);
  const float4 w = *reinterpret_cast<const float4*>(w_scale + i);
  const float x = x_scale[row];
  const float v[4] = {static_cast<float>(s.x) * (w.x * x), static_cast<float>(s.y) * (w.y * x),
                      static_cast<float>(s.z) * (w.z * x), static_cast<float>(s.w) * (w.w * x)};
  if (y_bf16)
    *reinterpret_cast<uint2*>(static_cast<uint16_t*>(y) + row * ldy + i) = {
        float_to_bf16_bits(v[0]) | uint32_t{float_to_bf16_bits(v[1])} << 16,
        float_to_bf16_bits(v[2]) | uint32_t{float_to_bf16_bits(v[3])} << 16};
  else
    *reinterpret_cast<float4*>(static_cast<float*>(y) + row * ldy + i) = {v[0], v[1], v[2], v[3]};
}

__global__ void __launch_bounds__(256)
    unpack_rows_kernel(const UnitLayout u, const uint8_t* packed, const int32_t* ids, int64_t id_stride,
                       float* out, int64_t ldo) {
  let_next_start();
  wait_for_previous();
  const int64_t row = ids[blockIdx.y * id_stride], c = blockIdx.x * int64_t{256} + threadIdx.x;
  if (c >= u.k) return;
  const Qparams q = qparams_at(u, packed, row, c);
  const float code = code_at(u, packed, row, c);
  const float value = (code - q.zero) * q.scale;
  out[blockIdx.y * ldo + c] = u.wide_scale ? value : bf16_bits_to_float(float_to_bf16_bits(value));
}

unsigned blocks(int64_t n) {
  return static_cast<unsigned>((n + 255) / 256);
}

}  // namespace

void pack_units(const LinearProblem& p, const DeviceWeightRows& rows, uint8_t* packed, DeviceStream stream) {
  const UnitLayout u = unit_layout(p);
  launch(pack_codes_kernel, blocks(rows.rows * u.units_k * u.unit_k / 2), 256, 0, stream, "packing", u, rows,
         packed);
  launch(pack_scales_kernel, blocks(rows.rows * scales_of_row(u)), 256, 0, stream, "packing", u, p.groups(),
         rows, packed);
}

void unpack_units(const LinearProblem& p, const uint8_t* packed, int64_t row0, int64_t rows, uint16_t* w,
                  int64_t ldw, DeviceStream stream) {
  const UnitLayout u = unit_layout(p);
  if (u.rows)
    return launch(widen_rows_kernel, blocks(rows * row_bytes(u) / 16), 256, 0, stream, "unpacking", u, packed,
                  row0, rows, w, ldw);
  const int64_t tiles = (rows + kUnitRows - 1) / kUnitRows;  // row0 is a multiple of 32
  if (u.bits == 4 && !u.wide_scale && (u.sets == 1 || u.sets == 2) && tiles * u.units_k * 64 < INT32_MAX) {
    const auto fast = u.sets == 1 ? (u.zero ? unpack_int4_kernel<1, true> : unpack_int4_kernel<1, false>)
                                  : (u.zero ? unpack_int4_kernel<2, true> : unpack_int4_kernel<2, false>);
    return launch(fast, blocks(tiles * u.units_k * 64), 256, 0, stream, "unpacking", packed,
                  static_cast<int>(row0 / kUnitRows), static_cast<int>(tiles), static_cast<int>(u.units_k),
                  static_cast<int>(rows), static_cast<int>(u.k), w, ldw);
  }
  const auto kernel = u.bits == 4 ? unpack_kernel<4, false>
                      : u.e4m3    ? unpack_kernel<8, true>
                                  : unpack_kernel<8, false>;
  launch(kernel, blocks(tiles * u.units_k * 64), 256, 0, stream, "unpacking", u, packed, row0, rows, w, ldw);
}

void scale_sums(const int32_t* sums, int64_t ld_sums, int64_t m, int64_t n, const float* x_scale,
                const float* w_scale, void* y, int64_t ldy, bool y_bf16, DeviceStream stream) {
  launch(scale_sums_kernel, dim3(blocks(n / 4), static_cast<unsigned>(m)), 256, 0, stream, "scaling", sums,
         ld_sums, n, x_scale, w_scale, y, ldy, y_bf16);
}

void unpack_unit_rows(const LinearProblem& p, const uint8_t* packed, const int32_t* ids, int64_t id_stride,
                      int64_t count, float* out, int64_t ldo, DeviceStream stream) {
  launch(unpack_rows_kernel, dim3(blocks(p.k), static_cast<unsigned>(count)), 256, 0, stream,
         "unpacking rows", unit_layout(p), packed, ids, id_stride, out, ldo);
}

}  // namespace roundel::cuda
