#include "codec/quantized_rows.h"

#include <algorithm>

namespace roundel {

int64_t chunk_rows(int64_t cols, int64_t source_element_bytes, int64_t bytes) {
  const int64_t row_bytes = std::max<int64_t>(1, cols * source_element_bytes);
  return std::max<int64_t>(1, bytes / row_bytes / kChunkUnit) * kChunkUnit;
}

int64_t group_width(const QuantArgs& args, int64_t cols) {
  if (args.strategy == Strategy::kGroup) return args.group_size;
  if (args.strategy == Strategy::kBlock) return args.block_cols;
  return std::max<int64_t>(1, cols);
}

}  // namespace roundel
