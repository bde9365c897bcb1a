#include "codec/stored_tensors.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"

namespace roundel {
namespace {

// Rows of the weight that share a row of scales.
int64_t rows_per_scale(const StoredWeight& stored) {
  const QuantArgs& args = weight_args(stored);
  if (args.strategy == Strategy::kTensor) return std::max<int64_t>(1, stored.rows);
  return args.strategy == Strategy::kBlock ? args.block_rows : 1;
}

// Of rows that repeat in memory, those that begin in this chunk. `first`: the row of the file that *out begins with.
template <class T>
int64_t gather(const StoredWeight& stored, const QuantizedRows& rows, const std::vector<T>& values,
               std::vector<T>* out) {
  const int64_t share = rows_per_scale(stored);
  const int64_t first = ceil_div(rows.row0, share), end = ceil_div(rows.row0 + rows.rows, share);
  for (int64_t row = first; row < end; ++row) {
    const T* from = values.data() + (row * share - rows.row0) * rows.groups;
    out->insert(out->end(), from, from + rows.groups);
  }
  return first;
}

// The rows of the file that the chunk needs.
struct FileRows {
  FileRows(const StoredWeight& stored, const QuantizedRows& rows)
      : share(rows_per_scale(stored)),
        first(rows.row0 / share),
        count(rows.rows == 0 ? 0 : (rows.row0 + rows.rows - 1) / share + 1 - first) {}
  int64_t share, first, count;
};

template <class T>
void spread(const FileRows& file, const std::vector<T>& values, const QuantizedRows& rows,
            std::vector<T>* out) {
  out->resize(static_cast<size_t>(rows.rows * rows.groups));
  for (int64_t r = 0; r < rows.rows; ++r) {
    const T* from = values.data() + ((rows.row0 + r) / file.share - file.first) * rows.groups;
    std::copy(from, from + rows.groups, out->data() + r * rows.groups);
  }
}

}  // namespace

Shape scale_shape(const QuantArgs& args, int64_t rows, int64_t cols) {
  switch (args.strategy) {
    case Strategy::kGroup:
      return {rows, ceil_div(cols, args.group_size)};
    case Strategy::kBlock:
      return {ceil_div(rows, args.block_rows), ceil_div(cols, args.block_cols)};
    case Strategy::kChannel:
      return {rows, 1};
    default:
      return {1};
  }
}

int64_t scale_groups(const StoredWeight& stored) {
  return ceil_div(stored.cols, group_width(weight_args(stored), stored.cols));
}

bool scales_per_row(const QuantArgs& args) {
  return args.strategy == Strategy::kChannel || args.strategy == Strategy::kGroup;
}

void store_scales(const StoredWeight& stored, const QuantizedRows& rows, const TensorSink& sink) {
  std::vector<float> shared;
  const int64_t first = gather(stored, rows, rows.scales, &shared);
  if (shared.empty()) return;
  const size_t size = dtype_size(stored.scale_dtype);
  Buffer bytes(shared.size() * size);
  narrow_from_float(stored.scale_dtype, shared.data(), bytes.data(), shared.size());
  sink(tensor_name(stored, "weight_scale"), static_cast<uint64_t>(first * rows.groups) * size, bytes.data(),
       bytes.size());
}

void store_zero_points_i8(const StoredWeight& stored, const QuantizedRows& rows, const TensorSink& sink) {
  std::vector<int8_t> shared;
  const int64_t first = gather(stored, rows, rows.zero_points, &shared);
  if (shared.empty()) return;
  sink(tensor_name(stored, "weight_zero_point"), static_cast<uint64_t>(first * rows.groups), shared.data(),
       shared.size());
}

void read_tensor(const StoredWeight& stored, const TensorSource& source, const char* suffix, uint64_t offset,
                 void* to, size_t bytes) {
  const TensorSpec* spec = source.find(tensor_name(stored, suffix));
  CHECK(spec != nullptr);
  source.read(*spec, offset, to, bytes);
}

void load_scales(const StoredWeight& stored, const TensorSource& source, QuantizedRows* rows) {
  const FileRows file(stored, *rows);
  const size_t size = dtype_size(stored.scale_dtype);
  std::vector<float> values(static_cast<size_t>(file.count * rows->groups));
  Buffer bytes(values.size() * size);
  read_tensor(stored, source, "weight_scale", static_cast<uint64_t>(file.first * rows->groups) * size,
              bytes.data(), bytes.size());
  widen_to_float(stored.scale_dtype, bytes.data(), values.data(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    const int64_t at = file.first * rows->groups + static_cast<int64_t>(i);
    fail(ErrorCode::kInvalid,
         "{}.weight_scale: the value at row {}, group {} is {}; the checkpoint is damaged", stored.module,
         at / rows->groups, at % rows->groups, values[i]);
  }
  spread(file, values, *rows, &rows->scales);
}

void load_zero_points_i8(const StoredWeight& stored, const TensorSource& source, QuantizedRows* rows) {
  const FileRows file(stored, *rows);
  std::vector<int8_t> values(static_cast<size_t>(file.count * rows->groups));
  read_tensor(stored, source, "weight_zero_point", static_cast<uint64_t>(file.first * rows->groups),
              values.data(), values.size());
  const QuantArgs& args = weight_args(stored);
  for (const int8_t zero : values) {
    if (zero >= args.qmin() && zero <= args.qmax()) continue;
    fail(ErrorCode::kInvalid, "{}.weight_zero_point: value {} is outside [{}, {}], the range of {} bits",
         stored.module, zero, args.qmin(), args.qmax(), args.num_bits);
  }
  spread(file, values, *rows, &rows->zero_points);
}

}  // namespace roundel
