// avx2_w8a8_gemm, avx2_w4a8_gemm: one tile of y = x . w^T with int8 activations.
// The layout and the tiling are drawn in common/linear_int8.h, the constants explained in isa.h.
#include <string.h>

#include "kernels/cpu/avx2/isa.h"
#include "kernels/cpu/common/linear_int8.h"

namespace roundel {
namespace {

// vpmaddubsw would saturate (2 * 255 * 128 > 32767). vpmaddwd multiplies pairs of 16-bit numbers and adds them to 32
// bits, exactly: the four bytes of a lane are split into the even and the odd ones, and four activations are kept as
// 16-bit x0 x2 x1 x3.
struct Madd {
  using Isa = Avx2;
  typedef int32_t Sum __attribute__((vector_size(32)));
  using W = __m256i;
  using X = __m256i;
  static constexpr int kParts = 2;
  static constexpr int kXBytes = 2;
  static constexpr bool kFloats = false;
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
  ROUNDEL_INLINE Sum dot(Sum sum, W w, X x) { return sum + (Sum)_mm256_madd_epi16(w, x); }
  static int32_t prepare(const int8_t* x, int64_t n, uint8_t* to) {
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15,  //
                                           0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    __m256i sum = _mm256_setzero_si256();
    for (int64_t k = 0; k < n; k += 16) {
      alignas(16) int8_t tail[16] = {};
      const int8_t* from = x + k;
      if (n - k < 16) from = static_cast<const int8_t*>(memcpy(tail, from, static_cast<size_t>(n - k)));
      const __m256i v = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(v, _mm256_set1_epi16(1)));
      const __m256i shuffled = _mm256_shuffle_epi8(v, order);
      uint8_t* into = to + 2 * k;
      if (n - k <= 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(into), _mm256_castsi256_si128(shuffled));
      } else {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(into), shuffled);
      }
    }
    alignas(32) int32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum);
    int32_t total = 0;
    for (int i = 0; i < 8; ++i) total += lanes[i];
    return total;
  }
};

}  // namespace

void avx2_w8a8_tile(const LinearTile& t) {
  IntLinear<Madd, false>::run(t);
}
void avx2_w4a8_tile(const LinearTile& t) {
  IntLinear<Madd, true>::run(t);
}

}  // namespace roundel
