// The most likely token of each row of logits, and the next step's input: greedy decoding without the host.
#include "kernels/cuda/common/feed.cuh"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

constexpr int kThreads = 256;

// The largest value, of equals the lower id.
__device__ __forceinline__ uint64_t rank_of(float value, uint32_t id) {
  return uint64_t{ordered(value)} << 32 | (0xffffffffu - id);
}

__device__ uint64_t block_most(uint64_t x, uint64_t* scratch) {
  for (int d = 16; d > 0; d /= 2) x = max(x, __shfl_xor_sync(~0u, x, d));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x < kThreads / 32 ? scratch[threadIdx.x] : 0;
  for (int d = 16; d > 0; d /= 2) x = max(x, __shfl_xor_sync(~0u, x, d));
  return x;  // in the first warp
}

// A row is divided among kPickBlocks blocks; its last block compares theirs. The last row counts the step.
__global__ void __launch_bounds__(kThreads) pick_kernel(const PickArgs a) {
  __shared__ uint64_t scratch[kThreads / 32];
  __shared__ bool last;
  wait_for_previous();
  const int64_t row = blockIdx.y;
  const float* logits = a.logits + row * a.ldl;
  uint64_t most = 0;
  const int64_t stride = kPickBlocks * kThreads;
#pragma unroll 4
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < a.vocab; i += stride)
    most = max(most, rank_of(logits[i], static_cast<uint32_t>(i)));
  most = block_most(most, scratch);
  if (threadIdx.x == 0) {
    a.scratch[row * kPickBlocks + blockIdx.x] = most;
    __threadfence();
    last = atomicAdd(a.counters + row, 1u) == kPickBlocks - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  most = threadIdx.x < kPickBlocks ? __ldcg(a.scratch + row * kPickBlocks + threadIdx.x) : 0;
  most = block_most(most, scratch);
  feed_next(a, row, static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(most)));
}

}  // namespace

void pick(const PickArgs& a, DeviceStream stream) {
  launch(pick_kernel, dim3(kPickBlocks, static_cast<unsigned>(a.rows)), kThreads, 0, stream, "picking", a);
}

}  // namespace roundel::cuda
