// Turning rows of float weights into codes: ranges, rounding, bit packing. The arithmetic is that of compressed-tensors
// run in the weight's own type: every intermediate is rounded to BF16 or F16 where the source is.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/api/support.h"

namespace roundel {

struct CpuFeatures;

enum class SourceType : uint8_t { kBF16, kF16, kF32 };

struct RangeResult {
  float lo = 0, hi = 0;    // of the finite values, 0 included: lo <= 0 <= hi
  int64_t not_finite = 0;  // how many NaN or infinite values there are
  int64_t first_not_finite = -1;
};

struct EncodeOps {
  const char* name;  // "avx512_encode"
  Support (*supports)(const CpuFeatures&);

  RangeResult (*range)(SourceType type, const void* x, int64_t n);
  // t = x / scale, then + zero_point, each rounded to the source type; clamped to [qmin, qmax]; rounded half to even.
  void (*encode_int)(SourceType type, const void* x, int64_t n, float scale, float zero_point, float qmin,
                     float qmax, int8_t* codes);
  // t = x / scale rounded to the source type, clamped to +-448, converted to E4M3.
  void (*encode_e4m3)(SourceType type, const void* x, int64_t n, float scale, uint8_t* codes);
  // codes + 2^(bits-1) as a little-endian bit stream of n * bits bits, zero bits up to a whole 32-bit word.
  // words: ceil(n * bits / 32). docs/format.md, 5.
  void (*pack_bits)(const int8_t* codes, int64_t n, int bits, uint32_t* words);
  void (*unpack_bits)(const uint32_t* words, int64_t n, int bits, int8_t* codes);
};

}  // namespace roundel
