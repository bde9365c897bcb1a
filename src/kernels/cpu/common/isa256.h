// AVX2 with FMA and F16C as the shared tile templates see it: vectors of 8 lanes. For the folders avx2 and avxvnni.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "kernels/api/linear.h"

namespace roundel {

#define ROUNDEL_INLINE static inline __attribute__((always_inline))

struct Avx2 {
  using F = __m256;
  using I = __m256i;
  static constexpr int kLanes = 8;

  // 16 registers: a tile of 6 tokens x 2 vectors has 12 sums, 2 weights, 1 activation; with integers a weight and an
  // activation take two registers each (even and odd bytes).
  static constexpr int kPanelBlocks = 1;
  static constexpr int kPanelTokens = 6;
  static constexpr int kIntPanelTokens = 4;
  static constexpr int direct_blocks(int tokens) { return tokens <= 2 ? 2 : 1; }

  ROUNDEL_INLINE F zero() { return _mm256_setzero_ps(); }
  ROUNDEL_INLINE F set1(float x) { return _mm256_set1_ps(x); }
  ROUNDEL_INLINE F load(const float* p) { return _mm256_loadu_ps(p); }
  ROUNDEL_INLINE void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  ROUNDEL_INLINE I first(int64_t n) {
    return _mm256_cmpgt_epi32(iset1(static_cast<int32_t>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  ROUNDEL_INLINE F load_n(const float* p, int64_t n) { return _mm256_maskload_ps(p, first(n)); }
  ROUNDEL_INLINE void store_n(float* p, int64_t n, F x) { _mm256_maskstore_ps(p, first(n), x); }
  ROUNDEL_INLINE F add(F a, F b) { return _mm256_add_ps(a, b); }
  ROUNDEL_INLINE F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  ROUNDEL_INLINE F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  ROUNDEL_INLINE F div(F a, F b) { return _mm256_div_ps(a, b); }
  ROUNDEL_INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }    // a b + c
  ROUNDEL_INLINE F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a b
  // b where one of them is NaN.
  ROUNDEL_INLINE F min(F a, F b) { return _mm256_min_ps(a, b); }
  ROUNDEL_INLINE F max(F a, F b) { return _mm256_max_ps(a, b); }
  ROUNDEL_INLINE F select_less(F a, F b, F yes, F no) {  // a < b ? yes : no
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  ROUNDEL_INLINE I bits(F x) { return _mm256_castps_si256(x); }
  ROUNDEL_INLINE F floats(I x) { return _mm256_castsi256_ps(x); }

  ROUNDEL_INLINE I izero() { return _mm256_setzero_si256(); }
  ROUNDEL_INLINE I iset1(int32_t x) { return _mm256_set1_epi32(x); }
  ROUNDEL_INLINE I iload(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  ROUNDEL_INLINE void istore(void* p, I x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
  ROUNDEL_INLINE I load_s8(const int8_t* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  ROUNDEL_INLINE __m128i to_s8(I x) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    return _mm_packs_epi16(words, words);
  }
  // The low bytes of the lanes, which must fit.
  ROUNDEL_INLINE void store_s8(int8_t* p, I x) { _mm_storel_epi64(reinterpret_cast<__m128i*>(p), to_s8(x)); }
  ROUNDEL_INLINE void store_s8_n(int8_t* p, int64_t n, I x) {
    alignas(16) int8_t all[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(all), to_s8(x));
    for (int64_t i = 0; i < n; ++i) p[i] = all[i];
  }
  ROUNDEL_INLINE I iadd(I a, I b) { return _mm256_add_epi32(a, b); }
  ROUNDEL_INLINE I isub(I a, I b) { return _mm256_sub_epi32(a, b); }
  ROUNDEL_INLINE I imul(I a, I b) { return _mm256_mullo_epi32(a, b); }
  ROUNDEL_INLINE I imax(I a, I b) { return _mm256_max_epi32(a, b); }
  ROUNDEL_INLINE I iand(I a, I b) { return _mm256_and_si256(a, b); }
  ROUNDEL_INLINE I ior(I a, I b) { return _mm256_or_si256(a, b); }
  ROUNDEL_INLINE I ixor(I a, I b) { return _mm256_xor_si256(a, b); }
  template <int S>
  ROUNDEL_INLINE I sll(I a) {
    return _mm256_slli_epi32(a, S);
  }
  template <int S>
  ROUNDEL_INLINE I srl(I a) {
    return _mm256_srli_epi32(a, S);
  }
  ROUNDEL_INLINE F to_float(I x) { return _mm256_cvtepi32_ps(x); }
  ROUNDEL_INLINE I round_even(F x) { return _mm256_cvtps_epi32(x); }

  // Sums and maxima across lanes, in one fixed order.
  ROUNDEL_INLINE float sum(F x) {
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
  }
  ROUNDEL_INLINE float most(F x) {
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
  }
  ROUNDEL_INLINE int32_t imost(I x) {
    const __m128i b = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    const __m128i c = _mm_max_epi32(b, _mm_shuffle_epi32(b, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
  }

  ROUNDEL_INLINE F load_bf16(const void* p) {
    return floats(sll<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))));
  }
  ROUNDEL_INLINE F load_f16(const void* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
};

}  // namespace roundel
