// The most likely token of each row of logits, and the next step's input: greedy decoding without the host.
#include "kernels/cuda/common/device.cuh"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

constexpr int kThreads = 256;

// Orders like (value, lower id first); NaN is below everything.
__device__ __forceinline__ uint64_t rank_of(float value, uint32_t id) {
  uint32_t bits = __float_as_uint(value);
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  if (value != value) bits = 0;
  return uint64_t{bits} << 32 | (0xffffffffu - id);
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
  const int step = *a.step;  // before the barrier in block_most: thread 0 counts it up after
  most = threadIdx.x < kPickBlocks ? __ldcg(a.scratch + row * kPickBlocks + threadIdx.x) : 0;
  most = block_most(most, scratch);
  if (step + 1 < a.steps)
    for (int64_t i = threadIdx.x; i < a.half; i += kThreads) {
      const int64_t from = (step * a.rows + row) * a.half + i;
      a.cos[row * a.half + i] = a.next_cos[from];
      a.sin[row * a.half + i] = a.next_sin[from];
    }
  if (threadIdx.x != 0) return;
  const int32_t id = static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(most));
  a.ids[step * a.rows + row] = id;
  a.info[row].id = id;
  a.info[row].position += 1;
  a.counters[row] = 0;
  __threadfence();
  if (atomicAdd(a.counters + a.rows, 1u) == a.rows - 1) {
    a.counters[a.rows] = 0;
    *a.step = step + 1;
  }
}

}  // namespace

void pick(const PickArgs& a, DeviceStream stream) {
  launch(pick_kernel, dim3(kPickBlocks, static_cast<unsigned>(a.rows)), kThreads, 0, stream, "picking", a);
}

}  // namespace roundel::cuda
