// avx512vnni_{w8a8,w4a8,w4a16,w8a16}_gemm: one tile of y = x . w^T in integers.
// The layout and the tiling are drawn in common/linear_int8.h, the constants explained in isa.h.
#include <string.h>

#include "kernels/cpu/avx512/isa.h"
#include "kernels/cpu/common/linear_int8.h"

namespace roundel {
namespace {

// vpdpbusd multiplies four unsigned with four signed bytes and adds all four products to 32 bits without saturation:
// the weights are the unsigned operand, the activations stay as they are.
struct Vnni {
  using Isa = Avx512;
  typedef int32_t Sum __attribute__((vector_size(64)));
  using W = __m512i;
  using X = __m512i;
  static constexpr int kParts = 1;
  static constexpr int kXBytes = 1;
  static constexpr bool kFloats = false;
  template <int kPart>
  ROUNDEL_INLINE W weights(__m512i bytes) {
    return bytes;
  }
  template <int kPart>
  ROUNDEL_INLINE X load_x(const uint8_t* x, int64_t k) {
    int32_t four;
    memcpy(&four, x + k, 4);
    return _mm512_set1_epi32(four);
  }
  ROUNDEL_INLINE Sum dot(Sum sum, W w, X x) { return (Sum)_mm512_dpbusd_epi32((__m512i)sum, w, x); }
  static int32_t prepare(const int8_t* x, int64_t n, uint8_t* to) {
    __m512i sum = _mm512_setzero_si512();
    const __m512i ones = _mm512_set1_epi8(1);
    for (int64_t k = 0; k < n; k += 64) {
      const int64_t left = n - k;
      const __mmask64 from = left >= 64 ? ~0ull : (1ull << left) - 1;
      const int64_t padded = (left + kStep - 1) / kStep * kStep;
      const __mmask64 into = padded >= 64 ? ~0ull : (1ull << padded) - 1;
      const __m512i v = _mm512_maskz_loadu_epi8(from, x + k);
      _mm512_mask_storeu_epi8(to + k, into, v);
      sum = _mm512_dpbusd_epi32(sum, ones, v);
    }
    return _mm512_reduce_add_epi32(sum);
  }
};

// Floats as 16-bit integers (int16_step): vpdpwssd multiplies two pairs of them at the rate at which floats go singly. As
// with Madd16 the bytes of a lane are split into the even and the odd ones, and four activations are kept as x0 x2 x1 x3.
struct Vnni16 {
  using Isa = Avx512;
  typedef int32_t Sum __attribute__((vector_size(64)));
  using W = __m512i;
  using X = __m512i;
  static constexpr int kParts = 2;
  static constexpr int kXBytes = 2;
  static constexpr bool kFloats = true;
  template <int kPart>
  ROUNDEL_INLINE W weights(__m512i bytes) {
    return kPart == 0 ? _mm512_and_si512(bytes, _mm512_set1_epi16(0x00ff)) : _mm512_srli_epi16(bytes, 8);
  }
  template <int kPart>
  ROUNDEL_INLINE X load_x(const uint8_t* x, int64_t k) {
    int32_t pair;
    memcpy(&pair, x + 2 * k + 4 * kPart, 4);
    return _mm512_set1_epi32(pair);
  }
  ROUNDEL_INLINE Sum dot(Sum sum, W w, X x) { return (Sum)_mm512_dpwssd_epi32((__m512i)sum, w, x); }
  static int32_t prepare(const float* x, int64_t n, uint8_t* to, float* scale) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i most = _mm512_setzero_si512();
    int64_t k = 0;
    for (; k + 16 <= n; k += 16)
      most = _mm512_max_epi32(most, _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(x + k)), magnitude));
    if (k < n) {
      const __m512 tail = Avx512::load_n(x + k, n - k);
      most = _mm512_max_epi32(most, _mm512_and_si512(_mm512_castps_si512(tail), magnitude));
    }
    const int32_t bits = Avx512::imost(most);
    const float inverse = int16_step(bits, scale);
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15,  //
                                           0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    __m512i sum = _mm512_setzero_si512();
    for (k = 0; k < n; k += 16) {
      const int64_t left = n - k;
      const __m512 v = left >= 16 ? _mm512_loadu_ps(x + k) : Avx512::load_n(x + k, left);
      const __m512i wide = _mm512_cvtps_epi32(_mm512_mul_ps(v, _mm512_set1_ps(inverse)));
      const __m256i codes = _mm512_cvtsepi32_epi16(wide);
      sum = _mm512_add_epi32(sum, _mm512_cvtepi16_epi32(codes));
      const __m256i ordered = _mm256_shuffle_epi8(codes, order);
      auto* into = reinterpret_cast<__m256i*>(to + 2 * k);
      if (left <= 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(into), _mm256_castsi256_si128(ordered));
      } else {
        _mm256_storeu_si256(into, ordered);
      }
    }
    return _mm512_reduce_add_epi32(sum);
  }
};

}  // namespace

void avx512vnni_w4a16_tile(const LinearTile& t) {
  IntLinear<Vnni16, true>::run(t);
}
void avx512vnni_w8a16_tile(const LinearTile& t) {
  IntLinear<Vnni16, false>::run(t);
}
void avx512vnni_w8a8_tile(const LinearTile& t) {
  IntLinear<Vnni, false>::run(t);
}
void avx512vnni_w4a8_tile(const LinearTile& t) {
  IntLinear<Vnni, true>::run(t);
}

}  // namespace roundel
