// avx512_{w4,w8,f8}a16_gemm and avx512_{bf16,f16,f32}_gemm: one tile of y = x . w^T with float activations.
// The layout and the tiling are drawn in common/linear_float.h, the decoding in weights.h, the constants in isa.h.
#include "kernels/cpu/common/linear_float.h"
#include "kernels/cpu/avx512/isa.h"
#include "kernels/cpu/avx512/weights.h"

namespace roundel {

void avx512_w4a16_tile(const LinearTile& t) {
  FloatLinear<Avx512, Avx512U4>::run(t);
}
void avx512_w8a16_tile(const LinearTile& t) {
  FloatLinear<Avx512, Avx512S8>::run(t);
}
void avx512_f8a16_tile(const LinearTile& t) {
  FloatLinear<Avx512, Avx512E4M3>::run(t);
}
void avx512_bf16_tile(const LinearTile& t) {
  FloatLinear<Avx512, Avx512BF16>::run(t);
}
void avx512_f16_tile(const LinearTile& t) {
  FloatLinear<Avx512, Avx512F16>::run(t);
}
void avx512_f32_tile(const LinearTile& t) {
  FloatLinear<Avx512, Avx512F32>::run(t);
}

}  // namespace roundel
