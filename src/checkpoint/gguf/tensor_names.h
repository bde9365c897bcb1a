// Which tensor of a GGUF file becomes which tensor of the checkpoint, with the shape that the model's sizes ask for.
//
//   for (const ImportedTensor& t : plan_gguf_tensors(file, model)) ...   // sorted by t.spec.name
#pragma once
#include <cstdint>
#include <vector>

#include "checkpoint/gguf/model.h"
#include "tensor/tensor.h"

namespace roundel {

struct ImportedTensor {
  TensorSpec spec;  // Hugging Face name, BF16
  const GgufTensor* source = nullptr;
  // 0: rows are in order. Else row r comes from permuted_row(r, rows / permuted_heads), and a tensor of one
  // dimension is not stored in blocks.
  int64_t permuted_heads = 0;
};

// Throws one Error that lists every tensor that is missing, has another shape, or is not understood.
std::vector<ImportedTensor> plan_gguf_tensors(const GgufFile& file, const GgufModel& model);

// llama.cpp rotates neighbouring rows, Hugging Face rows half a head apart; the rows of each head are stored to match.
// The row of the GGUF tensor that holds row `row` of the Hugging Face tensor.
inline int64_t permuted_row(int64_t row, int64_t head_dim) {
  const int64_t in_head = row % head_dim, half = head_dim / 2;
  return row - in_head + in_head % half * 2 + in_head / half;
}

}  // namespace roundel
