// Hopper's copy engine and what waits for it, as PTX; descriptions of operands in shared memory, groups of products.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace roundel::cuda {

__device__ __forceinline__ void barrier_init(uint32_t at) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
}
__device__ __forceinline__ void barrier_expect(uint32_t at, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t at, uint32_t phase) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(at),
      "r"(phase)
      : "memory");
}
__device__ __forceinline__ void bulk_copy(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ uint4 load_shared16(uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at));
  return v;
}
__device__ __forceinline__ uint2 load_shared8(uint32_t at) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(at));
  return v;
}
// One thread of the warp that is here: what it does with the copy engine stays on the uniform path.
__device__ __forceinline__ bool elect_one() {
  uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
  return elected != 0;
}

__device__ __forceinline__ void barrier_arrive(uint32_t at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
__device__ __forceinline__ void barrier_init_count(uint32_t at, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}
__device__ __forceinline__ void tensor_copy(uint32_t to, const CUtensorMap* map, int column, int row,
                                            uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
// Units of column `k` (in units) and of rows from `row` on, one after another.
__device__ __forceinline__ void units_copy(uint32_t to, const CUtensorMap* map, int k, int row,
                                           uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4}], [%5];" ::"r"(to),
      "l"(map), "r"(0), "r"(k), "r"(row), "r"(barrier)
      : "memory");
}

// A box from shared memory to a matrix, as a group of its own.
__device__ __forceinline__ void tensor_store(const CUtensorMap* map, int column, int row, uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
      "cp.async.bulk.commit_group;" ::"l"(map),
      "r"(column), "r"(row), "r"(from)
      : "memory");
}

// What blocks of a kernel tell one another through memory: a number of this launch (launch_mark). One thread leaves it after
// a barrier of the threads whose writes it stands for; the one that waits takes it away, and a barrier follows.
__device__ __forceinline__ void leave_mark(uint64_t* at, uint64_t mark) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(mark) : "memory");
}
__device__ __forceinline__ void take_mark(uint64_t* at, uint64_t mark) {
  uint64_t found = 0;
  while (found != mark)
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(found) : "l"(at) : "memory");
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(uint64_t{0}) : "memory");
}

__device__ __forceinline__ void group_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void group_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
__device__ __forceinline__ void group_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// The low word of an operand's description: rows of 128 bytes in the 128-byte swizzle, 8 rows 1024 bytes apart from the
// next 8. 16 columns further it is 2 more: computed once, because what makes it is slow (the uniform data path).
__device__ __forceinline__ uint32_t operand_of(uint32_t at) {
  return (at & 0x3FFFF) >> 4 | 1u << 16;
}
__device__ __forceinline__ uint64_t whole_operand(uint32_t low) {
  return uint64_t{low} | uint64_t{64} << 32 | uint64_t{1} << 62;
}

}  // namespace roundel::cuda
