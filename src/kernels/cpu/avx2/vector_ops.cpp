// avx2_ops: the small operations of a forward pass; see common/vector_ops.h.
#include "kernels/cpu/common/vector_ops.h"

#include "kernels/cpu/common/isa256.h"

namespace roundel {

extern const VectorOps kAvx2Ops = Ops<Avx2>::table("avx2_ops", avx2_supports);

}  // namespace roundel
