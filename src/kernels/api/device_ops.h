// The small operations of a forward pass on a GPU. All pointers are device memory; matrices are row-major.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/api/device.h"
#include "kernels/api/encode.h"
#include "kernels/api/support.h"

namespace roundel {

// x16: activations as exact half-precision numbers (integer codes, E4M3 values) with a float scale for each token and
// each run of kScaleColumns columns; columns from K on are zero, up to ld16, a multiple of kScaleColumns.
constexpr int64_t kScaleColumns = 128;
// Up to this many tokens linears write floats in parts and quantized activations come as x16; beyond, as bytes or BF16.
constexpr int64_t kSmallTokens = 64;

// Activations and weights of a byte lie in rows of a multiple of kScaleColumns columns, zero from K on. In a run of
// kScaleColumns they are exchanged: what a lane of the tensor cores takes of 64 columns (2 q, 2 q + 1, and those 8
// further, of each 16) lies together, so that weights can be widened to 16 bits on their way into registers.
constexpr int64_t byte_place(int64_t column) {
  const int64_t c = column % kScaleColumns;
  return column - c + c % 8 / 2 * 32 + c / 64 * 16 + c / 16 % 4 * 4 + c / 8 % 2 * 2 + c % 2;
}

// Two terms: passes of few tokens keep activations as the sum of two bf16 numbers, which is a float to 16 bits. The second
// lies `low` elements after the first, the sum's rest; low 0: there is one term.

// What a linear wrote: bf16, or float in parts that are to be summed.
struct DeviceMatrix {
  const void* data = nullptr;
  int64_t ld = 0;
  bool bf16 = false;
  int parts = 1;
  int64_t part_stride = 0;
  const float* row_scale = nullptr;  // (rows), to be multiplied by; null: 1
};

// How a cache stores keys and values: as BF16, as floats (on a GPU: single tokens and short prompts at full speed only), or
// as codes of a byte (on a GPU), with one scale for the keys of a layer and one for its values.
enum class KvType : uint8_t { kBF16, kE4M3, kInt8, kF32 };
constexpr int64_t kv_bytes(KvType type) {
  return type == KvType::kF32 ? 4 : type == KvType::kBF16 ? 2 : 1;
}
// A cache is made of pages of this many positions of one sequence.
constexpr int64_t kPageTokens = 64;

// One new token: what kernels need to know of it and of its sequence.
struct TokenInfo {
  int32_t id = 0;
  int32_t position = 0;
  // The sequence's pages, each (2 * layers, kv_heads, kPageTokens, D): a layer's keys, then its values.
  uint8_t* const* pages = nullptr;
};

// The cache as kernels read and write it.
struct DeviceKv {
  KvType type = KvType::kBF16;
  float key_scale = 1, value_scale = 1;  // of codes
  int bits = 8;                          // of kInt8: 2 to 8
};

// The form that a linear wants its input in (linear/linear_input.h).
struct DeviceForm {
  // kHalf: not rounded but to half precision, with a power of two for each 128 columns so that nothing overflows.
  enum class Kind : uint8_t { kNone, kInt8, kInt8Asym, kInt8Static, kE4M3, kInt, kHalf };
  Kind kind = Kind::kNone;
  float scale = 0;  // static; 0: dynamic
  int32_t zero_point = 0;
  int bits = 8;
  int64_t group = 0;  // columns that share a dynamic scale; 0: the whole token
};

// Where rounded tokens go, one of three ways.
struct DeviceCodes {
  uint16_t* x16 = nullptr;  // (rows,ld16) and x_scale
  float* x_scale = nullptr;
  int64_t ld16 = 0;
  // (rows,ld8) int8 or E4M3 at byte_place(column), zero from `cols` on, and token_scale; ld8: a multiple of kScaleColumns
  uint8_t* x8 = nullptr;
  int64_t ld8 = 0;
  // Not 0, for a form in groups of kScaleColumns: token_scale is (ld8 / kScaleColumns, scale_ld).
  int64_t scale_ld = 0;
  // bf16, rows ldy apart, zero up to there: the codes themselves, exactly, where token_scale is given, else the values.
  uint16_t* y = nullptr;
  int64_t ldy = 0, low = 0;
  float* token_scale = nullptr;  // (rows): one scale for the whole token
};

struct NormArgs {
  int64_t rows = 0, cols = 0;
  const int32_t* rows_in = nullptr;  // output row i comes from input row rows_in[i]; null: i
  float* residual = nullptr;         // (.,cols), rows `ld` apart
  int64_t ld = 0;
  DeviceMatrix delta;  // data null: none; else residual += delta first
  const float* gain = nullptr;
  float eps = 0;
  uint16_t* y = nullptr;  // (rows,cols) bf16, rows ldy apart, zero padded to ldy; or null
  int64_t ldy = 0, low = 0;
  float* y_float = nullptr;  // (rows,cols), rows `ldy_float` apart; or null
  int64_t ldy_float = 0;
  DeviceForm form;  // kind not kNone: also `codes`, from the values before they are rounded to bf16
  DeviceCodes codes;
};

struct QuantizeArgs {
  int64_t rows = 0, cols = 0;
  const uint16_t* x = nullptr;  // bf16
  int64_t ldx = 0, low = 0;
  const int32_t* order = nullptr;  // columns in this order; null: as they are
  DeviceForm form;
  DeviceCodes codes;  // form.kind kNone: y
};

struct RopeArgs {
  int64_t tokens = 0, heads = 0, kv_heads = 0, head_dim = 0, half = 0, layer = 0;
  DeviceMatrix q, k, v;
  const TokenInfo* info = nullptr;
  const float* cos = nullptr;  // (tokens,half)
  const float* sin = nullptr;
  const float* q_norm = nullptr;  // (head_dim) or null
  const float* k_norm = nullptr;
  float eps = 0;
  DeviceKv kv;
  uint16_t* q_out = nullptr;  // (tokens,heads,head_dim) bf16
  int64_t low = 0;            // of q_out
};

struct DeviceAttentionArgs {
  int64_t tokens = 0, heads = 0, kv_heads = 0, head_dim = 0, layer = 0;
  float scale = 0;
  int64_t window = 0;
  const TokenInfo* info = nullptr;
  DeviceKv kv;
  const uint16_t* q = nullptr;  // (tokens,heads,head_dim) bf16
  uint16_t* out = nullptr;      // (tokens,heads*head_dim) bf16, rows ldo apart
  int64_t ldo = 0;
  int64_t low = 0;  // of q and out
  // All tokens are of one sequence, at consecutive positions: a prompt.
  bool one_sequence = false;
  int splits = 1;            // pieces of a sequence that blocks work on, each a part of the keys
  float* scratch = nullptr;  // tokens * heads * splits * (head_dim + 2) floats, where splits is more than one
  uint32_t* counters = nullptr;  // tokens * kv_heads, zero before and after
};

struct GatedArgs {
  int64_t rows = 0, cols = 0;  // cols of the output
  DeviceMatrix gate, up;  // up.data null: gate holds both, in alternating blocks of kPairRows rows of weights
  bool gelu = false;
  uint16_t* y = nullptr;
  int64_t ldy = 0, low = 0;
  DeviceForm form;  // kind not kNone: `codes` instead of y
  DeviceCodes codes;
};

// The most likely token of each row, the lower id of equals. With `info` it becomes the row's next input: id and position
// of the next step, and the angles of that step.
struct PickArgs {
  int64_t rows = 0, vocab = 0;
  const float* logits = nullptr;  // (rows,vocab), rows ldl apart
  int64_t ldl = 0;
  TokenInfo* info = nullptr;  // (rows)
  int32_t* step = nullptr;    // counts up by one
  int32_t* ids = nullptr;     // (steps,rows): row *step receives the tokens
  int64_t half = 0;
  float* cos = nullptr;  // (rows,half), from row *step of next_cos (steps,rows,half), while *step + 1 < steps
  float* sin = nullptr;
  const float* next_cos = nullptr;
  const float* next_sin = nullptr;
  int64_t steps = 0;
  uint64_t* scratch = nullptr;   // rows * kPickBlocks
  uint32_t* counters = nullptr;  // rows + 1, zero before and after
};
constexpr int64_t kPickBlocks = 64;

// How the token of a row is drawn: engine/sampler.h says what the numbers mean.
struct DrawRow {
  double temperature = 0, top_p = 1, min_p = 0, repetition_penalty = 1;
  int64_t top_k = 0;
  uint64_t seed = 0, step = 0;  // of the row's first draw; with each further one `step` counts up
};

// A token drawn for each row, which becomes the row's next input as in PickArgs.
struct DrawArgs {
  PickArgs next;                  // scratch: rows
  float* logits = nullptr;        // those of `next`; penalties change them
  const DrawRow* draw = nullptr;  // (rows)
  uint64_t* weights = nullptr;    // rows * vocab, vocab below 2^23
  // (rows, vocab / 32 rounded up): a bit for each token of the row's history; drawn tokens are added.
  uint32_t* seen = nullptr;
};

// What a linear wrote, through the codes of output_activations and back, in place: float or bf16, one part.
struct RoundOutputArgs {
  DeviceMatrix y;
  int64_t rows = 0, cols = 0;
  DeviceForm form;  // kInt8Static or kE4M3, with its scale
};

// Float weights to codes, scales and zero points: byte for byte what codec/encoder.h makes of them (ranges without a
// search, scales in the type of the source).
struct DeviceEncodeArgs {
  int64_t rows = 0, cols = 0;
  int64_t group = 0;  // columns that share a scale; cols: one a row
  SourceType source = SourceType::kBF16;
  const void* x = nullptr;  // (rows,cols)
  bool e4m3 = false;        // else integers
  bool symmetric = true;
  float qmin = 0, qmax = 0;
  uint8_t* codes = nullptr;        // (rows,cols)
  float* scales = nullptr;         // (rows,groups)
  int8_t* zero_points = nullptr;   // (rows,groups), of asymmetric integers
  uint32_t* not_finite = nullptr;  // counts up for each NaN or infinity
};

struct DeviceOps {
  const char* name;
  Support (*supports)(const DeviceInfo&);
  void (*norm)(const NormArgs&, DeviceStream);
  void (*quantize)(const QuantizeArgs&, DeviceStream);
  void (*rope)(const RopeArgs&, DeviceStream);
  void (*attention)(const DeviceAttentionArgs&, DeviceStream);
  // rope() and attention() of tokens that are each the next of their own sequence, in one kernel where there is one.
  // What else the cache and `info` hold must be older than the pass: the kernel reads it before its turn.
  void (*attend_next)(const RopeArgs&, const DeviceAttentionArgs&, DeviceStream);
  void (*gated)(const GatedArgs&, DeviceStream);
  // y (rows,cols) = the sum of its parts * scale of the row + bias of the column (either may be null), in the first part.
  void (*scale_rows)(const DeviceMatrix& y, int64_t rows, int64_t cols, const float* scale, const float* bias,
                     DeviceStream);
  void (*pick)(const PickArgs&, DeviceStream);
  void (*draw)(const DrawArgs&, DeviceStream);
  void (*round_output)(const RoundOutputArgs&, DeviceStream);
  void (*encode)(const DeviceEncodeArgs&, DeviceStream);
  // y (rows,cols) bf16 = float x; columns up to ldy become zero.
  void (*to_bf16)(const float* x, int64_t ldx, int64_t rows, int64_t cols, uint16_t* y, int64_t ldy,
                  DeviceStream);
  // Reads `bytes` bytes and leaves their sum: for measuring the read bandwidth.
  void (*read_all)(const void* data, size_t bytes, uint32_t* sum, DeviceStream);
};

}  // namespace roundel
