// avx512_f32_attention: one tile, query rows of one key/value head; see common/attention.h.
#include "kernels/cpu/common/attention.h"

#include "kernels/cpu/avx512/isa.h"

namespace roundel {

void avx512_attention_tile(const AttentionTile& t) {
  Attention<Avx512>::run(t);
}

}  // namespace roundel
