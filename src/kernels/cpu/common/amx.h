// What the driver hands to the AMX code: one part of a problem, rows x tokens. Plain data only (see tile.h).
#pragma once
#include "kernels/cpu/common/tile.h"

namespace roundel {

// A part's tokens and blocks at most. A block's codes are read from memory once for each part of the tokens: at 512 a
// thread needs 7 GB/s of them to keep its matrix unit busy, half of what it gets. Each activation is used for 256 rows once
// it is in the L2 cache.
constexpr int64_t kAmxTokens = 512;
constexpr int64_t kAmxBlocks = 16;
// Columns whose weights are decoded, and multiplied with all tokens, at a time: 1 KiB of a row of activations, whatever
// their type. A panel of 32 rows has 32 KiB.
constexpr int64_t kAmxFloatColumns = 512;
constexpr int64_t kAmxPanelBytes = 2 * kBlockRows * 2 * kAmxFloatColumns;
static_assert(kAmxPanelBytes == 2 * kBlockRows * kIntSegment);
// Groups of columns are whole steps of a tile product.
constexpr int64_t kAmxStep = 32;
// Tokens whose 16-bit integers fit the rows of one tile with both bytes.
constexpr int64_t kAmxPairedTokens = 8;

struct AmxPart : LinearTile {
  // kInt8: sums of each token's codes over each segment of columns, (M,segments).
  const int32_t* token_sums = nullptr;
  int64_t segments = 0;
  // Floats as 16-bit integers: rows 2 m and 2 m + 1 of x (of LinearTile) hold the high and the low bytes of token m, ldx
  // apart; each segment of columns has its scale, (M,segments). paired: low bytes are less 128, for one tile of both.
  int64_t ldx = 0;
  const float* part_scales = nullptr;
  bool paired = false;
  uint8_t* panel = nullptr;  // kAmxPanelBytes, on 64 bytes
  // totals: 16 x 32 floats for each two blocks and 16 tokens, both rounded up.
};

Support amx_int8_supports(const CpuFeatures&);  // driver/cpu_support.cpp
Support amx_bf16_supports(const CpuFeatures&);

using AmxFn = void (*)(const AmxPart&);

void amxint8_w8a8_part(const AmxPart&);
void amxint8_w4a8_part(const AmxPart&);
void amxint8_w4a16_part(const AmxPart&);
void amxbf16_w4a16_part(const AmxPart&);
void amxbf16_w8a16_part(const AmxPart&);
void amxbf16_f8a16_part(const AmxPart&);
void amxbf16_bf16_part(const AmxPart&);

// Rows (tokens x query heads of a key/value head) that share the tiles made of 64 keys and values.
constexpr int64_t kAmxAttentionRows = 128;
// scratch, on 64 bytes, rows and D rounded up to 16 and 32: 2 rows D + 4 * 64 D bytes, rows (D + 16 + 1) floats.
void amxbf16_attention_tile(const AttentionTile&);

int32_t amx_sum(const int8_t* x, int64_t n);
// A segment of a token as 16-bit integers, their bytes apart, low ones less 128 if they are to be signed; n rounded up to 16
// are written. Returns the scale.
float amx_split(const float* x, int64_t n, bool signed_low, uint8_t* high, uint8_t* low);
void amx_to_bf16(const float* x, int64_t n, uint16_t* y);

}  // namespace roundel
