// Activations as 16-bit integers for pairwise products: of each four x0 x2 x1 x3, as the even and the odd bytes of a lane
// meet them.
#pragma once
#include <string.h>

#include "kernels/cpu/common/isa256.h"
#include "kernels/cpu/common/linear_int8.h"

namespace roundel {

// Isa: Avx2, or what has its own copy of everything that is compiled with other flags.
template <class Isa>
struct Int16Pairs {
  using W = __m256i;
  using X = __m256i;
  static constexpr int kParts = 2;
  static constexpr int kXBytes = 2;
  template <int kPart>
  ROUNDEL_INLINE W weights(__m256i bytes) {
    return kPart == 0 ? _mm256_and_si256(bytes, _mm256_set1_epi16(0x00ff)) : _mm256_srli_epi16(bytes, 8);
  }
  template <int kPart>
  ROUNDEL_INLINE X load_x(const uint8_t* x, int64_t k) {
    int32_t pair;
    memcpy(&pair, x + 2 * k + 4 * kPart, 4);
    return _mm256_set1_epi32(pair);
  }

  // 16 numbers, of which the first `left` are stored, and zeros up to a multiple of 8.
  ROUNDEL_INLINE void store_pairs(uint8_t* to, int64_t left, __m256i words) {
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15,  //
                                           0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    const __m256i ordered = _mm256_shuffle_epi8(words, order);
    if (left <= 8) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(ordered));
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), ordered);
    }
  }
  ROUNDEL_INLINE int32_t sum_lanes(__m256i sum) {
    alignas(32) int32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum);
    int32_t total = 0;
    for (int i = 0; i < 8; ++i) total += lanes[i];
    return total;
  }

  static int32_t prepare(const int8_t* x, int64_t n, uint8_t* to) {
    __m256i sum = _mm256_setzero_si256();
    for (int64_t k = 0; k < n; k += 16) {
      alignas(16) int8_t tail[16] = {};
      const int8_t* from = x + k;
      if (n - k < 16) from = static_cast<const int8_t*>(memcpy(tail, from, static_cast<size_t>(n - k)));
      const __m256i v = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(v, _mm256_set1_epi16(1)));
      store_pairs(to + 2 * k, n - k, v);
    }
    return sum_lanes(sum);
  }

  ROUNDEL_INLINE __m256 load(const float* x, int64_t left) {
    return left >= 8 ? _mm256_loadu_ps(x) : left > 0 ? Isa::load_n(x, left) : _mm256_setzero_ps();
  }
  static int32_t prepare(const float* x, int64_t n, uint8_t* to, float* scale) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    for (int64_t k = 0; k < n; k += 8)
      most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(load(x + k, n - k)), magnitude));
    const __m256 inverse = _mm256_set1_ps(int16_step(Isa::imost(most), scale));
    __m256i sum = _mm256_setzero_si256();
    for (int64_t k = 0; k < n; k += 16) {
      const __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(load(x + k, n - k), inverse));
      const __m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(load(x + k + 8, n - k - 8), inverse));
      const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
      store_pairs(to + 2 * k, n - k, words);
    }
    return sum_lanes(sum);
  }
};

}  // namespace roundel
