// AVX-512 as the shared tile templates see it (kernels/cpu/common): vectors of 16 lanes.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "kernels/api/linear.h"

namespace roundel {

#define ROUNDEL_INLINE static inline __attribute__((always_inline))

struct Avx512 {
  using F = __m512;
  using I = __m512i;
  using Mask = __mmask16;
  static constexpr int kLanes = 16;

  // 32 registers: a tile of 14 tokens x 2 vectors has 28 sums, 2 weights, 1 activation.
  static constexpr int kPanelBlocks = 2;
  static constexpr int kPanelTokens = 14;
  static constexpr int kIntPanelTokens = 14;
  // A fused multiply-add takes 4 cycles, two start in each: four blocks of rows keep enough of them in flight.
  static constexpr int direct_blocks(int) { return 4; }

  ROUNDEL_INLINE F zero() { return _mm512_setzero_ps(); }
  ROUNDEL_INLINE F set1(float x) { return _mm512_set1_ps(x); }
  ROUNDEL_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
  ROUNDEL_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  ROUNDEL_INLINE Mask first(int64_t n) { return static_cast<Mask>((1u << n) - 1); }  // n < 16
  ROUNDEL_INLINE F load_n(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
  ROUNDEL_INLINE void store_n(float* p, int64_t n, F x) { _mm512_mask_storeu_ps(p, first(n), x); }
  ROUNDEL_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
  ROUNDEL_INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  ROUNDEL_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  ROUNDEL_INLINE F div(F a, F b) { return _mm512_div_ps(a, b); }
  ROUNDEL_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }    // a b + c
  ROUNDEL_INLINE F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a b
  // b where one of them is NaN.
  ROUNDEL_INLINE F min(F a, F b) { return _mm512_min_ps(a, b); }
  ROUNDEL_INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }
  ROUNDEL_INLINE F select_less(F a, F b, F yes, F no) {  // a < b ? yes : no
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  ROUNDEL_INLINE bool any_greater(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
  ROUNDEL_INLINE I bits(F x) { return _mm512_castps_si512(x); }
  ROUNDEL_INLINE F floats(I x) { return _mm512_castsi512_ps(x); }

  ROUNDEL_INLINE I izero() { return _mm512_setzero_si512(); }
  ROUNDEL_INLINE I iset1(int32_t x) { return _mm512_set1_epi32(x); }
  ROUNDEL_INLINE I iload(const void* p) { return _mm512_loadu_si512(p); }
  ROUNDEL_INLINE void istore(void* p, I x) { _mm512_storeu_si512(p, x); }
  ROUNDEL_INLINE I load_s8(const int8_t* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  // The low bytes of the lanes, which must fit.
  ROUNDEL_INLINE void store_s8(int8_t* p, I x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x));
  }
  ROUNDEL_INLINE void store_s8_n(int8_t* p, int64_t n, I x) {
    _mm512_mask_cvtepi32_storeu_epi8(p, first(n), x);
  }
  ROUNDEL_INLINE I iadd(I a, I b) { return _mm512_add_epi32(a, b); }
  ROUNDEL_INLINE I isub(I a, I b) { return _mm512_sub_epi32(a, b); }
  ROUNDEL_INLINE I imul(I a, I b) { return _mm512_mullo_epi32(a, b); }
  ROUNDEL_INLINE I imax(I a, I b) { return _mm512_max_epi32(a, b); }
  ROUNDEL_INLINE I iand(I a, I b) { return _mm512_and_si512(a, b); }
  ROUNDEL_INLINE I ior(I a, I b) { return _mm512_or_si512(a, b); }
  ROUNDEL_INLINE I ixor(I a, I b) { return _mm512_xor_si512(a, b); }
  template <int S>
  ROUNDEL_INLINE I sll(I a) {
    return _mm512_slli_epi32(a, S);
  }
  template <int S>
  ROUNDEL_INLINE I srl(I a) {
    return _mm512_srli_epi32(a, S);
  }
  ROUNDEL_INLINE F to_float(I x) { return _mm512_cvtepi32_ps(x); }
  ROUNDEL_INLINE I round_even(F x) { return _mm512_cvtps_epi32(x); }

  // Sums and maxima across lanes, in one fixed order.
  ROUNDEL_INLINE float sum(F x) {
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
  }
  ROUNDEL_INLINE float most(F x) {
    const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
  }
  ROUNDEL_INLINE int32_t imost(I x) { return _mm512_reduce_max_epi32(x); }

  ROUNDEL_INLINE F load_bf16(const void* p) {
    return floats(sll<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)))));
  }
  ROUNDEL_INLINE F load_f16(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
};

}  // namespace roundel
