// avx2_ops: the small operations of a forward pass; see common/vector_ops.h.
#include "kernels/cpu/common/vector_ops.h"

#include "kernels/cpu/avx2/isa.h"

namespace roundel {

extern const VectorOps kAvx2Ops = Ops<Avx2>::table("avx2_ops", avx2_supports);

}  // namespace roundel
