// One weight, from its source to whoever wants it, in chunks of rows: quantized on the way, read as stored, or dense.
// Quantizing to disk and quantizing on load are this same stream with a different last step.
//
//   stream_encoded(source, spec, args, module, pool, {}, [&](const QuantizedRows& rows) { linear.pack(rows); });
#pragma once
#include <string>

#include "base/function_ref.h"
#include "codec/format.h"
#include "codec/quantized_rows.h"
#include "scheme/quant_args.h"
#include "tensor/tensor.h"

namespace roundel {

class ThreadPool;

using RowsSink = FunctionRef<void(const QuantizedRows&)>;
// `data`: rows of the tensor in its own dtype.
using DenseSink = FunctionRef<void(int64_t row0, int64_t rows, const void* data)>;

struct EncodeStats {
  double error_sum = 0, weight_sum = 0;  // sum (w - dequantized)^2, sum w^2; zero unless measured
};
struct StreamOptions {
  bool allow_not_finite = false;
  bool measure_error = false;
};

// A float tensor (rows, cols) through the encoder. `module` is for messages. Two passes for the tensor strategy.
EncodeStats stream_encoded(const TensorSource& source, const TensorSpec& spec, const QuantArgs& args,
                           const std::string& module, ThreadPool& pool, const StreamOptions& options,
                           RowsSink sink);
// A weight that is stored quantized; `stored` went through its format's open(). Read and unpacked by all threads; the sink
// is called by one.
void stream_stored(const TensorSource& source, const StoredWeight& stored, ThreadPool& pool, RowsSink sink);
// Bytes [offset, offset + bytes) of a tensor, read with all threads.
void read_parallel(const TensorSource& source, const TensorSpec& spec, uint64_t offset, uint8_t* to,
                   size_t bytes, ThreadPool& pool);
// Any 2-D tensor as it is.
void stream_dense(const TensorSource& source, const TensorSpec& spec, ThreadPool& pool, DenseSink sink);

}  // namespace roundel
