// Where a weight streams to while a model loads: a Linear on the CPU, or a part of a DeviceLinear.
//
//   target.pack(rows);                               // quantized rows, chunk by chunk
//   target.pack_dense(row0, rows, data, pool);       // or dense ones
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "codec/quantized_rows.h"
#include "scheme/quant_args.h"
#include "tensor/tensor.h"

namespace roundel {

class ThreadPool;

using ReadBytes = FunctionRef<void(uint64_t offset, uint8_t* to, size_t bytes)>;

struct LinearSpec {
  std::string name;
  int64_t n = 0, k = 0;
  Scheme scheme;               // weights empty: dense
  DType dtype = DType::kBF16;  // of a dense weight, or of the scales
};

class WeightTarget {
 public:
  virtual ~WeightTarget() = default;
  virtual const LinearSpec& spec() const = 0;
  // Chunks may come in any order; row0 is a multiple of kRowUnit.
  virtual void pack(const QuantizedRows& rows) = 0;
  // The same with all threads, where that is possible.
  virtual void pack_with(const QuantizedRows& rows, ThreadPool&) { pack(rows); }
  virtual void pack_dense(int64_t row0, int64_t rows, const void* data,
                          ThreadPool& pool) = 0;  // in spec().dtype
  // Whether it takes the rows of a checkpoint as they are and rounds them itself, where spec().scheme asks for that: the
  // same codes as codec/encoder.h.
  virtual bool takes_source(DType) const { return false; }
  // All rows, which `read(offset, to, bytes)` reads. NaN and infinities may only be known later.
  virtual void pack_source(DType, ReadBytes) {}
  virtual void set_bias(std::vector<float> bias) = 0;  // (N)
  // Static activations: scale and zero point of the input.
  virtual void set_input_scale(float scale, int32_t zero_point) = 0;
  // Static output activations: scale and zero point of the output.
  virtual void set_output_scale(float scale, int32_t zero_point) = 0;
  // weight_g_idx: the group of every column. Before the first pack().
  virtual void set_group_index(const std::vector<int32_t>& group_of_column) = 0;
  virtual size_t packed_bytes() const = 0;
};

// The columns in the order of their groups.
std::vector<int32_t> group_order(const std::vector<int32_t>& group_of_column);
// `rows` with its columns of codes in that order.
std::vector<int8_t> reorder_columns(const QuantizedRows& rows, const std::vector<int32_t>& order);

}  // namespace roundel
