// amxint8_w8a8_gemm, amxint8_w4a8_gemm: one part of y = x . w^T with int8 activations (linear.h).
#include "kernels/cpu/amx/linear.h"

namespace roundel {

void amxint8_w8a8_part(const AmxPart& t) {
  run_amx<AmxU8>(t);
}
void amxint8_w4a8_part(const AmxPart& t) {
  run_amx<AmxU4>(t);
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
