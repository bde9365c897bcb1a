// amxbf16_{w4,w8,f8}a16_gemm, amxbf16_bf16_gemm: one part of y = x . w^T with activations rounded to BF16 (linear.h).
#include "kernels/cpu/amx/linear.h"

namespace roundel {

void amxbf16_w4a16_part(const AmxPart& t) {
  run_amx<AmxN4>(t);
}
void amxbf16_w8a16_part(const AmxPart& t) {
  run_amx<AmxS8>(t);
}
void amxbf16_f8a16_part(const AmxPart& t) {
  AmxLinear<AmxE4M3, false>(t).run();
}
void amxbf16_bf16_part(const AmxPart& t) {
  AmxLinear<AmxBF16, false>(t).run();
}

// To the nearest, ties to even, as the originals round.
void amx_to_bf16(const float* x, int64_t n, uint16_t* y) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256bh v = _mm512_cvtneps_pbh(_mm512_loadu_ps(x + i));
    __builtin_memcpy(y + i, &v, 32);
  }
  if (i == n) return;
  const __mmask16 rest = Amx::first(n - i);
  const __m256bh v = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(rest, x + i));
  __m256i bits;
  __builtin_memcpy(&bits, &v, 32);
  _mm256_mask_storeu_epi16(y + i, rest, bits);
}

}  // namespace roundel
