// One tensor of a GGUF file, dequantized and written as BF16, in pieces of about a megabyte over the threads of a pool.
//
//   convert_to_bf16(tensor, bytes, writer, pool);
#pragma once
#include "base/thread_pool.h"
#include "checkpoint/gguf/byte_source.h"
#include "checkpoint/gguf/tensor_names.h"
#include "checkpoint/tensor_writer.h"

namespace roundel {

// Throws Error(kInvalid) naming the tensor when a value is not finite, or becomes infinite in BF16.
void convert_to_bf16(const ImportedTensor& tensor, const ByteSource& bytes, TensorWriter& writer,
                     ThreadPool& pool);

}  // namespace roundel
