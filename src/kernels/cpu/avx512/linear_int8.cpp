// avx512vnni_w8a8_gemm, avx512vnni_w4a8_gemm: one tile of y = x . w^T with int8 activations.
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
  static constexpr int kXBytes = 1;
  ROUNDEL_INLINE W weights(__m512i bytes) { return bytes; }
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

}  // namespace

void avx512vnni_w8a8_tile(const LinearTile& t) {
  IntLinear<Vnni, false>::run(t);
}
void avx512vnni_w4a8_tile(const LinearTile& t) {
  IntLinear<Vnni, true>::run(t);
}

}  // namespace roundel
