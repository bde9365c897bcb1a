// QuantizedRows: some rows of a quantized weight, the unit in which weights stream from encoder to file, from file to
// kernel, and from encoder to kernel.
#pragma once
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "scheme/quant_args.h"

namespace roundel {

struct QuantizedRows {
  int64_t row0 = 0, rows = 0, cols = 0;
  std::vector<int8_t> codes;  // (rows,cols): integers, or the bytes of E4M3
  // One row of scales for each row of codes, whatever the strategy: a tensor or block scale is repeated.
  int64_t groups = 0;               // scales in a row: 1, ceil(cols / group_size) or ceil(cols / block_cols)
  std::vector<float> scales;        // (rows,groups), values of the scale dtype
  std::vector<int8_t> zero_points;  // (rows,groups); empty when symmetric
};

// Rows are streamed in chunks of this many, so that chunks are whole for blocks of 128 and for 32-row packing.
constexpr int64_t kChunkUnit = 128;
// Rows in a chunk of about `bytes` bytes of source, a multiple of kChunkUnit.
int64_t chunk_rows(int64_t cols, int64_t source_element_bytes, int64_t bytes = 4 << 20);
// Columns that share a scale: the group size, the width of a block, or all of them.
int64_t group_width(const QuantArgs& args, int64_t cols);

}  // namespace roundel
