// What becomes of a picked token: it is written down and is the row's next input.
#pragma once
#include "kernels/cuda/common/device.cuh"

namespace roundel::cuda {

// Orders as floats do, in integers; NaN is below everything.
__device__ __forceinline__ uint32_t ordered(float value) {
  const uint32_t bits = __float_as_uint(value + 0.0f);  // -0 is 0
  if (value != value) return 0;
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Called by all threads of the one block that ends a row, with the row's token; the last row counts the step.
__device__ inline void feed_next(const PickArgs& a, int64_t row, int32_t id) {
  const int step = *static_cast<const volatile int32_t*>(a.step);
  __syncthreads();  // all have read it
  if (step + 1 < a.steps)
    for (int64_t i = threadIdx.x; i < a.half; i += blockDim.x) {
      const int64_t from = (step * a.rows + row) * a.half + i;
      a.cos[row * a.half + i] = a.next_cos[from];
      a.sin[row * a.half + i] = a.next_sin[from];
    }
  if (threadIdx.x != 0) return;
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

}  // namespace roundel::cuda
