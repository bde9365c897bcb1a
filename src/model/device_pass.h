// One forward pass on a GPU, queued kernel by kernel. Internal to model/.
#pragma once
#include <optional>

#include "model/device_decoder.h"

namespace roundel {

class DeviceDecoder::Pass {
 public:
  Pass(DeviceDecoder& decoder, const DeviceBatch& batch, bool one_sequence);
  void run_layers();
  // The last norm of the rows `rows` (device; null: all): as bf16, or as float into y.
  DeviceInput final_norm(const int32_t* rows, int64_t count);
  void final_norm(float* y, int64_t ldy);

 private:
  DeviceAttentionArgs attention_args(const DeviceLayer& layer, int64_t index, const uint16_t* q);
  void attention_block(const DeviceLayer& layer, int64_t index);
  void mlp_block(const DeviceLayer& layer);
  // residual += delta, then the norm, in the form that all of `readers` want, when it is one.
  DeviceInput normalize(const DeviceBuffer& gain, const std::vector<std::unique_ptr<DeviceLinear>>& readers);
  // The first of `readers` of the norm; it does the norm itself where it can, and is the only one then. Else `input` is
  // made, for the others too.
  DeviceMatrix multiply_norm(const DeviceBuffer& gain,
                             const std::vector<std::unique_ptr<DeviceLinear>>& readers,
                             std::optional<DeviceInput>& input, const DeviceLinear::Output& out);
  // To the residual: at once where the kernel can, else as what the next norm adds.
  void add_product(const DeviceLinear& linear, DeviceInput& input);
  NormArgs norm_args(const DeviceBuffer& gain);
  DeviceMatrix multiply(const DeviceLinear& linear, DeviceInput& input, int max_parts);
  // Whether the kernel that makes an input rounds it to this form, from floats.
  bool rounds_at_once(const DeviceInputForm& form) const;
  // Room for `rows` rows of activations, in two terms where terms_; low: elements to the second, or 0.
  uint16_t* take_rows(int64_t rows, int64_t ld, int64_t& low);

  DeviceDecoder& d_;
  const ModelConfig& c_;
  const DeviceBatch& batch_;
  bool one_sequence_;
  int64_t tokens_, hidden_ld_;
  bool small_;  // few tokens: linears give floats in parts
  bool terms_;  // activations of two terms (kernels/api/device_ops.h)
  bool next_;   // one token for each of several sequences
  const TokenInfo* info_;
  float* residual_;
  DeviceMatrix delta_;
};

}  // namespace roundel
