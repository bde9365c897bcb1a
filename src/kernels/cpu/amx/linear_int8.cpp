// amxint8_{w8,w4}a8_gemm, amxint8_w4a16_gemm: one part of y = x . w^T with int8 activations, or floats rounded to
// 16-bit integers (linear.h).
#include "kernels/cpu/common/linear_int8.h"
#include "kernels/cpu/amx/linear.h"

namespace roundel {

void amxint8_w8a8_part(const AmxPart& t) {
  run_amx<AmxU8>(t);
}
void amxint8_w4a8_part(const AmxPart& t) {
  run_amx<AmxU4>(t);
}

void amxint8_w4a16_part(const AmxPart& t) {
  run_amx<AmxS4>(t);
}

// The integers and the scale of Vnni16 in avx512/linear_int8.cpp.
float amx_split(const float* x, int64_t n, bool signed_low, uint8_t* high, uint8_t* low) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  __m512i most = _mm512_setzero_si512();
  const auto load = [&](int64_t k) __attribute__((always_inline)) {
    return n - k >= 16 ? _mm512_loadu_ps(x + k) : Amx::load_n(x + k, n - k);
  };
  for (int64_t k = 0; k < n; k += 16)
    most = _mm512_max_epi32(most, _mm512_and_si512(_mm512_castps_si512(load(k)), magnitude));
  float scale;
  const __m512 inverse = _mm512_set1_ps(int16_step(_mm512_reduce_max_epi32(most), &scale));
  const __m128i flip = _mm_set1_epi8(signed_low ? -128 : 0);
  for (int64_t k = 0; k < n; k += 16) {
    const __m256i codes = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(_mm512_mul_ps(load(k), inverse)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(low + k), _mm_xor_si128(_mm256_cvtepi16_epi8(codes), flip));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(high + k), _mm256_cvtepi16_epi8(_mm256_srli_epi16(codes, 8)));
  }
  return scale;
}

int32_t amx_sum(const int8_t* x, int64_t n) {
  __m512i sum = _mm512_setzero_si512();
  const __m512i ones = _mm512_set1_epi8(1);
  for (int64_t k = 0; k < n; k += 64) {
    const int64_t left = n - k;
    const __mmask64 from = left >= 64 ? ~0ull : (1ull << left) - 1;
    sum = _mm512_dpbusd_epi32(sum, ones, _mm512_maskz_loadu_epi8(from, x + k));
  }
  return _mm512_reduce_add_epi32(sum);
}

}  // namespace roundel
