// What the files of this folder offer one another and sm90.
#pragma once
#include "kernels/api/device_linear.h"
#include "kernels/api/device_ops.h"
#include "kernels/cuda/common/layout.h"

namespace roundel::cuda {

// attention.cu: any number of tokens of any sequences; head_dim up to 256, a multiple of 8.
void attention(const DeviceAttentionArgs& a, DeviceStream stream);
// attention_prompt.cu: many tokens of one sequence, head_dim 64 or 128.
bool prompt_attention_fits(const DeviceAttentionArgs& a);
void prompt_attention(const DeviceAttentionArgs& a, DeviceStream stream);

// sm90/prompt.cu: 64 tokens of one sequence and more, head_dim 64 or 128 (Hopper).
bool group_attention_fits(const DeviceAttentionArgs& a);
void group_attention(const DeviceAttentionArgs& a, DeviceStream stream);

// rope.cu: whole heads rotated, no norm of queries and keys, bf16 in one part; false elsewhere.
bool rope_pairs(const RopeArgs& a, DeviceStream stream);

// sm90/attend.cu: rotation, the cache's new entry and attention of single tokens, by clusters of blocks (Hopper).
bool attend_cluster_fits(const DeviceAttentionArgs& a);
void attend_cluster(const RopeArgs& r, const DeviceAttentionArgs& a, DeviceStream stream);
// pick.cu
void pick(const PickArgs& a, DeviceStream stream);
// encode.cu
void encode(const DeviceEncodeArgs& a, DeviceStream stream);
// draw.cu
void draw(const DrawArgs& a, DeviceStream stream);

// tokens.cu: norm, quantize and gated of kernels/api/device_ops.h; false where a token does not fit into registers.
bool norm_in_registers(const NormArgs& a, DeviceStream stream);
bool quantize_in_registers(const QuantizeArgs& a, DeviceStream stream);
bool gated_in_registers(const GatedArgs& a, DeviceStream stream);

// units.cu: packing and unpacking of common/layout.h.
void pack_units(const LinearProblem& p, const DeviceWeightRows& rows, uint8_t* packed, DeviceStream stream);
// Rows [row0, row0 + rows) as bf16, (q - zero) * scale rounded once; columns up to ldw become zero.
void unpack_units(const LinearProblem& p, const uint8_t* packed, int64_t row0, int64_t rows, uint16_t* w,
                  int64_t ldw, DeviceStream stream);
// y (M,N) float or bf16 = int32 sums * x_scale of the row * w_scale of the column.
void scale_sums(const int32_t* sums, int64_t ld_sums, int64_t m, int64_t n, const float* x_scale,
                const float* w_scale, void* y, int64_t ldy, bool y_bf16, DeviceStream stream);
void unpack_unit_rows(const LinearProblem& p, const uint8_t* packed, const int32_t* ids, int64_t id_stride,
                      int64_t count, float* out, int64_t ldo, DeviceStream stream);

// rows.cu: the plain layout for what units cannot hold: codes (N,K), scales (N,groups) float, zero points (N,groups).
struct RowSections {
  int64_t code_bytes = 0, scales = 0, zeros = 0, bytes = 0;
};
RowSections row_sections(const LinearProblem& p);
void pack_plain(const LinearProblem& p, const DeviceWeightRows& rows, uint8_t* packed, DeviceStream stream);
// Rows as bf16, or as float.
void unpack_plain(const LinearProblem& p, const uint8_t* packed, int64_t row0, int64_t rows, void* w,
                  int64_t ldw, bool as_float, DeviceStream stream);
void unpack_plain_rows(const LinearProblem& p, const uint8_t* packed, const int32_t* ids, int64_t id_stride,
                       int64_t count, float* out, int64_t ldo, DeviceStream stream);
// y (M,N) += bias.
void add_bias(void* y, bool y_bf16, int64_t m, int64_t n, int64_t ldy, const float* bias,
              DeviceStream stream);
// floats (M,ldy) = bf16 (M,ldx).
void widen(const void* x, int64_t ldx, int64_t m, int64_t k, float* y, int64_t ldy, DeviceStream stream);
// bf16 (M,N), rows ldy apart = floats (M,N).
void narrow_floats(const float* x, int64_t m, int64_t n, uint16_t* y, int64_t ldy, DeviceStream stream);
// bf16 x of an x16: value * scale, rounded once.
void x16_to_bf16(const DeviceLinearArgs& a, int64_t k, uint16_t* y, int64_t ldy, DeviceStream stream);

// linear.cpp: y = x w^T through bf16 rows in the workspace, a block of rows at a time.
using UnpackRows = void (*)(const LinearProblem&, const uint8_t* packed, int64_t row0, int64_t rows,
                            uint16_t* w, int64_t ldw, DeviceStream);
// Whether these are rows of bytes, and activations of this form codes of the same kind with one scale a token.
bool takes_codes(const LinearProblem& p, const DeviceForm& form);
// int8 by int8, and E4M3 by E4M3 on compute capability 9.0, more than kSmallTokens tokens.
bool units_take_bytes(const LinearProblem& p, const DeviceForm& form, int64_t m, const DeviceInfo& info);
bool never_fuses(const LinearProblem&, int64_t m, const DeviceInfo&);
bool never_gates(const LinearProblem&, TileUse::Input, int64_t m, const DeviceInfo&);
bool never_rounds(const LinearProblem&, const DeviceForm&, int64_t m, const DeviceInfo&);
size_t unpacked_workspace(const LinearProblem& p, int64_t m, bool bytes);
Support units_support(const LinearProblem& p, const DeviceInfo& info);
size_t units_bytes(const LinearProblem& p);
// Units by cuBLASLt, bytes where a.x8 is given.
int multiply_units(const LinearProblem& p, const uint8_t* packed, const DeviceLinearArgs& a,
                   const DeviceInfo& info, DeviceStream stream);
int multiply_unpacked(const LinearProblem& p, const uint8_t* packed, const DeviceLinearArgs& a,
                      UnpackRows unpack, DeviceStream stream);

}  // namespace roundel::cuda
