// avx2_{w4,w8,f8}a16_gemm and avx2_{bf16,f16,f32}_gemm: one tile of y = x . w^T with float activations.
// The layout and the tiling are drawn in common/linear_float.h, the decoding in weights.h, the constants in common/isa256.h.
#include "kernels/cpu/common/linear_float.h"
#include "kernels/cpu/avx2/weights.h"
#include "kernels/cpu/common/isa256.h"

namespace roundel {

void avx2_w4a16_tile(const LinearTile& t) {
  FloatLinear<Avx2, Avx2U4>::run(t);
}
void avx2_w8a16_tile(const LinearTile& t) {
  FloatLinear<Avx2, Avx2S8>::run(t);
}
void avx2_f8a16_tile(const LinearTile& t) {
  FloatLinear<Avx2, Avx2E4M3>::run(t);
}
void avx2_bf16_tile(const LinearTile& t) {
  FloatLinear<Avx2, Avx2BF16>::run(t);
}
void avx2_f16_tile(const LinearTile& t) {
  FloatLinear<Avx2, Avx2F16>::run(t);
}
void avx2_f32_tile(const LinearTile& t) {
  FloatLinear<Avx2, Avx2F32>::run(t);
}

}  // namespace roundel
