// How AVX-512 decodes 8 columns of 16 rows (tile.h, driver/linear_layout.h) to floats.
#pragma once
#include "kernels/cpu/avx512/isa.h"

namespace roundel {

// A nibble selects from a table of 16 floats (vpermps reads the low 4 bits of each lane): one shift and one permute for
// 16 weights, where masking, conversion and subtraction would take four instructions.
struct Avx512U4 {
  static constexpr bool kInteger = true;
  static constexpr int kBytes = 64;
  static constexpr float kFactor = 1;
  ROUNDEL_INLINE void decode(const uint8_t* p, __m512 (&w)[8][1]) {
    const __m512 table = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m512i q = _mm512_loadu_si512(p);
    w[0][0] = _mm512_permutexvar_ps(q, table);
    w[4][0] = _mm512_permutexvar_ps(_mm512_srli_epi32(q, 4), table);
    w[1][0] = _mm512_permutexvar_ps(_mm512_srli_epi32(q, 8), table);
    w[5][0] = _mm512_permutexvar_ps(_mm512_srli_epi32(q, 12), table);
    w[2][0] = _mm512_permutexvar_ps(_mm512_srli_epi32(q, 16), table);
    w[6][0] = _mm512_permutexvar_ps(_mm512_srli_epi32(q, 20), table);
    w[3][0] = _mm512_permutexvar_ps(_mm512_srli_epi32(q, 24), table);
    w[7][0] = _mm512_permutexvar_ps(_mm512_srli_epi32(q, 28), table);
  }
};

struct Avx512S8 {
  static constexpr bool kInteger = true;
  static constexpr int kBytes = 128;
  static constexpr float kFactor = 1;
  ROUNDEL_INLINE void decode(const uint8_t* p, __m512 (&w)[8][1]) {
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) {
      w[c][0] = Avx512::to_float(Avx512::load_s8(reinterpret_cast<const int8_t*>(p) + c * 16));
    }
  }
};

// E4M3 is the top of an F16 whose exponent is biased by 8 more: shift the 7 low bits into place, put the sign at the
// top, let the F16 conversion treat the subnormals, and multiply by 2^8 (in the scale).
struct Avx512E4M3 {
  static constexpr bool kInteger = false;
  static constexpr int kBytes = 128;
  static constexpr float kFactor = 256;
  ROUNDEL_INLINE void decode(const uint8_t* p, __m512 (&w)[8][1]) {
    const __m512i keep = _mm512_set1_epi16(static_cast<short>(0xbf80));
#pragma GCC unroll 4
    for (int c = 0; c < 8; c += 2) {
      const __m512i wide =
          _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + c * 16)));
      const __m512i half = _mm512_and_si512(_mm512_slli_epi16(wide, 7), keep);
      w[c][0] = _mm512_cvtph_ps(_mm512_castsi512_si256(half));
      w[c + 1][0] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1));
    }
  }
};

struct Avx512BF16 {
  static constexpr bool kInteger = false;
  static constexpr int kBytes = 256;
  static constexpr float kFactor = 1;
  ROUNDEL_INLINE void decode(const uint8_t* p, __m512 (&w)[8][1]) {
#pragma GCC unroll 4
    for (int c = 0; c < 8; c += 2) {
      const __m512i pair = _mm512_loadu_si512(p + c * 32);
      w[c][0] = Avx512::floats(_mm512_slli_epi32(pair, 16));
      w[c + 1][0] = Avx512::floats(_mm512_and_si512(pair, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
    }
  }
};

struct Avx512F16 {
  static constexpr bool kInteger = false;
  static constexpr int kBytes = 256;
  static constexpr float kFactor = 1;
  ROUNDEL_INLINE void decode(const uint8_t* p, __m512 (&w)[8][1]) {
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) w[c][0] = Avx512::load_f16(p + c * 32);
  }
};

struct Avx512F32 {
  static constexpr bool kInteger = false;
  static constexpr int kBytes = 512;
  static constexpr float kFactor = 1;
  ROUNDEL_INLINE void decode(const uint8_t* p, __m512 (&w)[8][1]) {
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) w[c][0] = Avx512::load(reinterpret_cast<const float*>(p) + c * 16);
  }
};

}  // namespace roundel
