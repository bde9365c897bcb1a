// What the baseline drivers (kernels/cpu/driver) hand to an instruction set's code: one tile of a problem.
// Plain data only: an inline function here could be linked everywhere in its AVX-512 copy.
//
// A packed weight is a row of blocks of 16 output rows, `stride` bytes each (driver/linear_layout.h draws one):
//   codes of the block, 16 rows interleaved | scales (groups,16) | zero points (groups,16) | row sums (16)
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/api/attention.h"
#include "kernels/api/linear.h"

namespace roundel {

Support avx2_supports(const CpuFeatures&);  // driver/cpu_support.cpp
Support avx512_supports(const CpuFeatures&);
Support avxvnni_supports(const CpuFeatures&);
Support avx512vnni_supports(const CpuFeatures&);

// ---- matrix products: a tile is rows x tokens ----

constexpr int64_t kBlockRows = 16;  // one AVX-512 vector of floats, two of AVX2
constexpr int64_t kStep = 8;        // columns that are decoded at a time: the nibbles of one 32-bit word
// A sum over columns starts anew after this many (and at each group) and is added to the row's total: the panel of
// decoded weights that serves all tokens has this many columns. 256 columns x 32 rows x 4 bytes = 32 KiB: the L1
// cache of 48 KiB less the activations (AVX2: 16 rows, 16 of 32 KiB). Integers: the same in bytes.
constexpr int64_t kFloatSegment = 256;
constexpr int64_t kIntSegment = 1024;
// With 16-bit activations and weights of 5 to 8 bits a sum of 32 bits holds no more.
constexpr int64_t kInt16Segment = 256;
// Up to here a tile reads the packed weights once, without a panel: decoding costs no more than the products.
constexpr int64_t kDirectTokens = 4;
// How far ahead of a block's codes memory is asked for: 250 ns at 16 GB/s are 4000 bytes, a quarter for each of the
// four blocks that are read at a time.
constexpr int64_t kPrefetch = 1024;
// A tile's tokens at most: a panel column serves so many products that decoding it costs < 1 %.
constexpr int64_t kTileTokens = 256;
constexpr int64_t kTileBlocks = 32;
// Prepared activations are in rows that are a panel's columns long plus one cache line, so that the rows of different
// tokens lie in different sets of the cache. A tile goes through so many panels of them at a time: 528 KiB, half of a
// small L2 cache. At least one of the most tokens must fit: 1024 integers of 16 bits are the longest row.
constexpr int64_t kXPad = 64;
constexpr int64_t kTileXBytes = kTileTokens * (2 * kIntSegment + kXPad);
// Any two panels that follow one another have more columns than one can hold: no more than so many. Bytes of a token in x
// and in x_segments, at most (memory that is not written costs nothing).
constexpr int64_t most_panels(int64_t k, int64_t columns) {
  return 2 * ((k + columns - 1) / columns) + 1;
}
constexpr int64_t prepared_x_bytes(int64_t k) {
  const int64_t ints = most_panels(k, kIntSegment) * (2 * kIntSegment + kXPad);
  const int64_t floats = most_panels(k, kFloatSegment) * (4 * kFloatSegment + kXPad);
  return ints > floats ? ints : floats;
}
constexpr int64_t prepared_segment_bytes(int64_t k) {
  return most_panels(k, kIntSegment) * (kIntSegment / kStep) * 8;
}

struct LinearTile {
  const uint8_t* packed = nullptr;
  int64_t stride = 0, scales = 0, zeros = 0, sums = 0;  // offsets in a block
  bool has_scale = false, has_zero = false;
  ScaleType scale_type = ScaleType::kBF16;
  int64_t n = 0, k = 0, group = 0, groups = 0;
  int64_t block0 = 0, block1 = 0;  // rows 16 * block0 .. min(n, 16 * block1)
  int64_t token0 = 0, token1 = 0;
  const LinearArgs* args = nullptr;
  // With a panel, the tiles' activations are prepared before: by one call for each token that sets `prepare`. They lie in
  // x, [panel][token of all][a panel's columns + kXPad], and what is known of their segments in x_segments. Without one, x
  // has room for kDirectTokens rows of 2 K bytes, x_segments 8 bytes for each kStep columns of them. All on 64 bytes.
  bool prepare = false;
  uint8_t* x = nullptr;
  uint8_t* x_segments = nullptr;
  float* totals = nullptr;  // kTileTokens * kTileBlocks * 16
};

using LinearTileFn = void (*)(const LinearTile&);

void avx512_w4a16_tile(const LinearTile&);
void avx512_w8a16_tile(const LinearTile&);
void avx512_f8a16_tile(const LinearTile&);
void avx512_bf16_tile(const LinearTile&);
void avx512_f16_tile(const LinearTile&);
void avx512_f32_tile(const LinearTile&);
void avx512vnni_w4a16_tile(const LinearTile&);
void avx512vnni_w8a16_tile(const LinearTile&);
void avx512vnni_w4a8_tile(const LinearTile&);
void avx512vnni_w8a8_tile(const LinearTile&);

void avx2_w4a16_tile(const LinearTile&);
void avx2_w8a16_tile(const LinearTile&);
void avx2_f8a16_tile(const LinearTile&);
void avx2_bf16_tile(const LinearTile&);
void avx2_f16_tile(const LinearTile&);
void avx2_f32_tile(const LinearTile&);
void avx2_w4a8_tile(const LinearTile&);
void avx2_w8a8_tile(const LinearTile&);
void avx2_w4a16i_tile(const LinearTile&);
void avxvnni_w8a8_tile(const LinearTile&);
void avxvnni_w4a8_tile(const LinearTile&);
void avxvnni_w4a16_tile(const LinearTile&);

// ---- attention: a tile is the query rows of some tokens and one key/value head ----

constexpr int64_t kKeyTile = 64;

struct AttentionTile {
  const AttentionArgs* args = nullptr;
  int64_t kv_head = 0;
  int64_t token0 = 0, token1 = 0;
  float* scratch = nullptr;  // 64-byte aligned: D * 64 + rows * (D + 16 + D + 64 + 2) floats
};

void avx512_attention_tile(const AttentionTile&);
void avx2_attention_tile(const AttentionTile&);

}  // namespace roundel
