// Linear: one weight matrix under a scheme, packed for the kernel that was chosen for it at construction.
//
//   Linear up({.name = "model.layers.0.mlp.up_proj", .n = 1536, .k = 576, .scheme = w4a16, .dtype = DType::kBF16});
//   up.pack(rows);                         // for every chunk of rows, as they stream in
//   up.forward(input, y, ldy, pool);       // y (M,N)
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "codec/quantized_rows.h"
#include "kernels/list.h"
#include "linear/linear_input.h"
#include "linear/weight_target.h"
#include "scheme/quant_args.h"
#include "tensor/tensor.h"

namespace roundel {

// The problem a kernel is asked to solve for a linear, without allocating anything (what `plan --explain` asks about).
LinearProblem linear_problem(const LinearSpec& spec);

// Which form of the activations a scheme asks for.
ActForm activation_form(const Scheme& scheme);

class Linear : public WeightTarget {
 public:
  explicit Linear(LinearSpec spec);

  void pack(const QuantizedRows& rows) override;
  void pack_with(const QuantizedRows& rows, ThreadPool& pool) override;
  void pack_dense(int64_t row0, int64_t rows, const void* data);
  void pack_dense(int64_t row0, int64_t rows, const void* data, ThreadPool& pool) override;
  void set_bias(std::vector<float> bias) override;
  void set_input_scale(float scale, int32_t zero_point) override;
  void set_output_scale(float scale, int32_t zero_point) override;
  void set_group_index(const std::vector<int32_t>& group_of_column) override;

  void forward(LinearInput& input, float* y, int64_t ldy, ThreadPool& pool) const;
  // Row `row` of the weight as floats (K): an embedding lookup.
  void read_row(int64_t row, float* out) const;

  const LinearSpec& spec() const override { return spec_; }
  const LinearKernel& kernel() const { return *kernel_; }
  size_t packed_bytes() const override { return packed_bytes_; }
  const uint8_t* packed() const { return mapped_ ? mapped_ : packed_.data(); }
  // Takes bytes that packed() of an equal linear held instead of being packed. On 64 bytes; they outlive this.
  void use_packed(const uint8_t* bytes);

 private:
  LinearSpec spec_;
  LinearProblem problem_;
  const LinearKernel* kernel_;
  ActForm form_;
  WeightRows view_of(const QuantizedRows& rows) const;
  void round_output(float* y, int64_t rows, int64_t ldy, ThreadPool& pool) const;

  Buffer packed_;
  const uint8_t* mapped_ = nullptr;  // instead of packed_
  size_t packed_bytes_;
  std::vector<float> bias_;
  float output_scale_ = 0;  // 0: the output stays as it is
  int32_t output_zero_ = 0;
};

}  // namespace roundel
