// avx2_f32_attention: one tile, query rows of one key/value head; see common/attention.h.
#include "kernels/cpu/common/attention.h"

#include "kernels/cpu/common/isa256.h"

namespace roundel {

void avx2_attention_tile(const AttentionTile& t) {
  Attention<Avx2>::run(t);
}

}  // namespace roundel
