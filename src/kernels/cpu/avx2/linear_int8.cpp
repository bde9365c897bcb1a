// avx2_{w8a8,w4a8,w4a16i}_gemm: one tile of y = x . w^T in integers.
// The layout and the tiling are drawn in common/linear_int8.h, the constants explained in common/isa256.h.
#include "kernels/cpu/common/int16_pairs.h"

namespace roundel {
namespace {

// vpmaddubsw would saturate (2 * 255 * 128 > 32767). vpmaddwd multiplies pairs of 16-bit numbers and adds them to 32
// bits, exactly: the four bytes of a lane are split into the even and the odd ones. kFromFloats: activations are floats, of
// which 16 bits are kept; a pair's two products are one instruction then, and twice as fast as floats.
template <bool kFromFloats>
struct Madd : Int16Pairs<Avx2> {
  using Isa = Avx2;
  typedef int32_t Sum __attribute__((vector_size(32)));
  static constexpr bool kFloats = kFromFloats;
  ROUNDEL_INLINE Sum dot(Sum sum, W w, X x) { return sum + (Sum)_mm256_madd_epi16(w, x); }
};

}  // namespace

void avx2_w8a8_tile(const LinearTile& t) {
  IntLinear<Madd<false>, false>::run(t);
}
void avx2_w4a8_tile(const LinearTile& t) {
  IntLinear<Madd<false>, true>::run(t);
}
void avx2_w4a16i_tile(const LinearTile& t) {
  IntLinear<Madd<true>, true>::run(t);
}

}  // namespace roundel
