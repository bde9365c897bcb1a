// The eight tile registers of AMX: 16 rows of 64 bytes each, as configured.
// Written as assembly because GCC 12's _tile_loadconfig names 8 of the 64 bytes it reads, and its _tile_loadd does not say
// that it reads memory: stores before either could be dropped or moved behind it.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/amx/isa.h"

namespace roundel {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int64_t tile_rows, int64_t tile_row_bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(tile_row_bytes);
  }
};
static_assert(sizeof(TileConfig) == 64);

ROUNDEL_INLINE void tile_configure(const TileConfig& config) {
  __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
}
// The registers are empty afterwards, so that a switch to another thread saves nothing.
ROUNDEL_INLINE void tile_release() {
  __asm__ volatile("tilerelease" : : : "memory");
}
template <int T>
ROUNDEL_INLINE void tile_zero() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(T));
}
template <int T>
ROUNDEL_INLINE void tile_load(const void* from, int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(T) : "memory");
}
template <int T>
ROUNDEL_INLINE void tile_store(void* to, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(T) : "memory");
}
// C += A . B: rows of A hold signed bytes, four columns of K next to each other in B are unsigned bytes.
template <int C, int A, int B>
ROUNDEL_INLINE void tile_dot_int8() {
  __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}
// The same with signed bytes in B, and in A signed or unsigned ones.
template <int C, int A, int B>
ROUNDEL_INLINE void tile_dot_signed() {
  __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}
template <int C, int A, int B>
ROUNDEL_INLINE void tile_dot_unsigned_signed() {
  __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}
// The same for pairs of BF16; denormal numbers count as zero.
template <int C, int A, int B>
ROUNDEL_INLINE void tile_dot_bf16() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}

}  // namespace roundel
