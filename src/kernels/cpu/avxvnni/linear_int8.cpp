// avxvnni_{w8a8,w4a8,w4a16}_gemm: one tile of y = x . w^T in integers, on CPUs without AVX-512 that have its products of
// bytes and of 16-bit numbers for 256 bits (AVX-VNNI). The layout and the tiling are drawn in common/linear_int8.h.
#include "kernels/cpu/common/int16_pairs.h"

namespace roundel {
namespace {

// A type of its own, so that the templates over it are: the linker keeps one copy of each.
struct AvxVnni : Avx2 {
  // 6 tokens x 2 vectors are 12 sums, 2 weights, 1 activation: 15 of 16 registers.
  static constexpr int kIntPanelTokens = 6;
};

struct Bytes {
  using Isa = AvxVnni;
  typedef int32_t Sum __attribute__((vector_size(32)));
  using W = __m256i;
  using X = __m256i;
  static constexpr int kParts = 1;
  static constexpr int kXBytes = 1;
  static constexpr bool kFloats = false;
  template <int kPart>
  ROUNDEL_INLINE W weights(__m256i bytes) {
    return bytes;
  }
  template <int kPart>
  ROUNDEL_INLINE X load_x(const uint8_t* x, int64_t k) {
    int32_t four;
    memcpy(&four, x + k, 4);
    return _mm256_set1_epi32(four);
  }
  ROUNDEL_INLINE Sum dot(Sum sum, W w, X x) { return (Sum)_mm256_dpbusd_avx_epi32((__m256i)sum, w, x); }
  static int32_t prepare(const int8_t* x, int64_t n, uint8_t* to) {
    __m256i sum = _mm256_setzero_si256();
    for (int64_t k = 0; k < n; k += 32) {
      alignas(32) int8_t tail[32] = {};
      const int64_t left = n - k;
      const int8_t* from = left >= 32 ? x + k : tail;
      if (left < 32) memcpy(tail, x + k, static_cast<size_t>(left));
      const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      sum = _mm256_dpbusd_avx_epi32(sum, _mm256_set1_epi8(1), v);
      if (left >= 32) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + k), v);
      } else {
        memcpy(to + k, from, static_cast<size_t>((left + kStep - 1) / kStep * kStep));
      }
    }
    return Int16Pairs<AvxVnni>::sum_lanes(sum);
  }
};

struct Words : Int16Pairs<AvxVnni> {
  using Isa = AvxVnni;
  typedef int32_t Sum __attribute__((vector_size(32)));
  static constexpr bool kFloats = true;
  ROUNDEL_INLINE Sum dot(Sum sum, W w, X x) { return (Sum)_mm256_dpwssd_avx_epi32((__m256i)sum, w, x); }
};

}  // namespace

void avxvnni_w8a8_tile(const LinearTile& t) {
  IntLinear<Bytes, false>::run(t);
}
void avxvnni_w4a8_tile(const LinearTile& t) {
  IntLinear<Bytes, true>::run(t);
}
void avxvnni_w4a16_tile(const LinearTile& t) {
  IntLinear<Words, true>::run(t);
}

}  // namespace roundel
