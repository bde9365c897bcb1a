// avx512_ops: the small operations of a forward pass; see common/vector_ops.h.
#include "kernels/cpu/common/vector_ops.h"

#include "kernels/cpu/avx512/isa.h"

namespace roundel {

extern const VectorOps kAvx512Ops = Ops<Avx512>::table("avx512_ops", avx512_supports);

}  // namespace roundel
