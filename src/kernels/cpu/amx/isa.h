// AVX-512 as the AMX kernels use it beside the tiles: vectors of 16 lanes, by the names of kernels/cpu/common.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace roundel {

#define ROUNDEL_INLINE static inline __attribute__((always_inline))

struct Amx {
  using F = __m512;
  using I = __m512i;
  using Mask = __mmask16;
  static constexpr int kLanes = 16;

  ROUNDEL_INLINE F zero() { return _mm512_setzero_ps(); }
  ROUNDEL_INLINE F set1(float x) { return _mm512_set1_ps(x); }
  ROUNDEL_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
  ROUNDEL_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  ROUNDEL_INLINE Mask first(int64_t n) { return static_cast<Mask>((1u << n) - 1); }  // n < 16
  ROUNDEL_INLINE F load_n(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
  ROUNDEL_INLINE void store_n(float* p, int64_t n, F x) { _mm512_mask_storeu_ps(p, first(n), x); }
  ROUNDEL_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
  ROUNDEL_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  ROUNDEL_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }    // a b + c
  ROUNDEL_INLINE F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a b

  ROUNDEL_INLINE I iset1(int32_t x) { return _mm512_set1_epi32(x); }
  ROUNDEL_INLINE I iload(const void* p) { return _mm512_loadu_si512(p); }
  ROUNDEL_INLINE void istore(void* p, I x) { _mm512_storeu_si512(p, x); }
  ROUNDEL_INLINE I load_s8(const int8_t* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  ROUNDEL_INLINE I iadd(I a, I b) { return _mm512_add_epi32(a, b); }
  ROUNDEL_INLINE I isub(I a, I b) { return _mm512_sub_epi32(a, b); }
  ROUNDEL_INLINE I imul(I a, I b) { return _mm512_mullo_epi32(a, b); }
  ROUNDEL_INLINE F to_float(I x) { return _mm512_cvtepi32_ps(x); }

  ROUNDEL_INLINE F load_bf16(const void* p) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p))), 16));
  }
  ROUNDEL_INLINE F load_f16(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
};

}  // namespace roundel
