// How AVX2 decodes 8 columns of 16 rows (tile.h, driver/linear_layout.h) to floats: two vectors for each column.
#pragma once
#include "kernels/cpu/common/isa256.h"

namespace roundel {

// XOR turns the stored q + 8 into two's complement; then a nibble is shifted to the top and back, which extends its
// sign.
struct Avx2U4 {
  static constexpr bool kInteger = true;
  static constexpr int kBytes = 64;
  static constexpr float kFactor = 1;
  template <int C>
  ROUNDEL_INLINE __m256 nibble(__m256i q) {
    constexpr int kAt = C < 4 ? 8 * C : 8 * (C - 4) + 4;
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(q, 28 - kAt), 28));
  }
  ROUNDEL_INLINE void decode(const uint8_t* p, __m256 (&w)[8][2]) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      const __m256i q = _mm256_xor_si256(Avx2::iload(p + 32 * v), _mm256_set1_epi8(static_cast<char>(0x88)));
      w[0][v] = nibble<0>(q);
      w[1][v] = nibble<1>(q);
      w[2][v] = nibble<2>(q);
      w[3][v] = nibble<3>(q);
      w[4][v] = nibble<4>(q);
      w[5][v] = nibble<5>(q);
      w[6][v] = nibble<6>(q);
      w[7][v] = nibble<7>(q);
    }
  }
};

struct Avx2S8 {
  static constexpr bool kInteger = true;
  static constexpr int kBytes = 128;
  static constexpr float kFactor = 1;
  ROUNDEL_INLINE void decode(const uint8_t* p, __m256 (&w)[8][2]) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      w[i / 2][i % 2] = Avx2::to_float(Avx2::load_s8(reinterpret_cast<const int8_t*>(p) + i * 8));
    }
  }
};

// E4M3 is the top of an F16 whose exponent is biased by 8 more: shift the 7 low bits into place, put the sign at the
// top, let the F16 conversion treat the subnormals, and multiply by 2^8 (in the scale).
struct Avx2E4M3 {
  static constexpr bool kInteger = false;
  static constexpr int kBytes = 128;
  static constexpr float kFactor = 256;
  ROUNDEL_INLINE void decode(const uint8_t* p, __m256 (&w)[8][2]) {
    const __m256i keep = _mm256_set1_epi16(static_cast<short>(0xbf80));
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) {
      const __m256i wide =
          _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + c * 16)));
      const __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), keep);
      w[c][0] = _mm256_cvtph_ps(_mm256_castsi256_si128(half));
      w[c][1] = _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1));
    }
  }
};

struct Avx2BF16 {
  static constexpr bool kInteger = false;
  static constexpr int kBytes = 256;
  static constexpr float kFactor = 1;
  ROUNDEL_INLINE void decode(const uint8_t* p, __m256 (&w)[8][2]) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const __m256i pair = Avx2::iload(p + i * 32);
      w[i / 2 * 2][i % 2] = Avx2::floats(_mm256_slli_epi32(pair, 16));
      w[i / 2 * 2 + 1][i % 2] =
          Avx2::floats(_mm256_and_si256(pair, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
    }
  }
};

struct Avx2F16 {
  static constexpr bool kInteger = false;
  static constexpr int kBytes = 256;
  static constexpr float kFactor = 1;
  ROUNDEL_INLINE void decode(const uint8_t* p, __m256 (&w)[8][2]) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) w[i / 2][i % 2] = Avx2::load_f16(p + i * 16);
  }
};

struct Avx2F32 {
  static constexpr bool kInteger = false;
  static constexpr int kBytes = 512;
  static constexpr float kFactor = 1;
  ROUNDEL_INLINE void decode(const uint8_t* p, __m256 (&w)[8][2]) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) w[i / 2][i % 2] = Avx2::load(reinterpret_cast<const float*>(p) + i * 8);
  }
};

}  // namespace roundel
