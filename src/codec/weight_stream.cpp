#include "codec/weight_stream.h"

#include <algorithm>

#include "base/process.h"
#include "base/thread_pool.h"
#include "codec/encoder.h"

namespace roundel {
// Copying out of the page cache is memory bound, and a copy of one thread far slower.
void read_parallel(const TensorSource& source, const TensorSpec& spec, uint64_t offset, uint8_t* to,
                   size_t bytes, ThreadPool& pool) {
  constexpr int64_t kPiece = 1 << 19;
  pool.parallel_for(static_cast<int64_t>(bytes), kPiece, [&](int64_t begin, int64_t end) {
    source.read(spec, offset + static_cast<uint64_t>(begin), to + begin, static_cast<size_t>(end - begin));
  });
}

void stream_dense(const TensorSource& source, const TensorSpec& spec, ThreadPool& pool, DenseSink sink) {
  CHECK(spec.shape.size() == 2);
  const int64_t rows = spec.shape[0];
  const int64_t row_bytes = spec.shape[1] * static_cast<int64_t>(dtype_size(spec.dtype));
  const int64_t chunk = chunk_rows(spec.shape[1], static_cast<int64_t>(dtype_size(spec.dtype)));
  Buffer buffer(static_cast<size_t>(std::min(chunk, rows) * row_bytes));
  for (int64_t row0 = 0; row0 < rows; row0 += chunk) {
    throw_if_interrupted();
    const int64_t n = std::min(chunk, rows - row0);
    read_parallel(source, spec, static_cast<uint64_t>(row0 * row_bytes), buffer.data(),
                  static_cast<size_t>(n * row_bytes), pool);
    sink(row0, n, buffer.data());
  }
}

EncodeStats stream_encoded(const TensorSource& source, const TensorSpec& spec, const QuantArgs& args,
                           const std::string& module, ThreadPool& pool, const StreamOptions& options,
                           RowsSink sink) {
  CHECK(spec.shape.size() == 2);
  WeightEncoder encoder(args, spec.shape[0], spec.shape[1], spec.dtype, module, options.allow_not_finite);
  encoder.measure_error(options.measure_error);
  for (; encoder.wants_pass(); encoder.end_pass())
    stream_dense(source, spec, pool, [&](int64_t row0, int64_t rows, const void* data) {
      encoder.observe(data, row0, rows, pool);
    });
  QuantizedRows out;
  stream_dense(source, spec, pool, [&](int64_t row0, int64_t rows, const void* data) {
    encoder.encode(data, row0, rows, &out, pool);
    sink(out);
  });
  return {encoder.error_sum(), encoder.weight_sum()};
}

void stream_stored(const TensorSource& source, const StoredWeight& stored, ThreadPool& pool, RowsSink sink) {
  const StorageFormat& format = find_format(stored.scheme.format, stored.module);
  const int64_t chunk = chunk_rows(stored.cols, 2);
  const int64_t parts = std::min<int64_t>(pool.size(), chunk / kChunkUnit);
  std::vector<QuantizedRows> rows(static_cast<size_t>(parts));
  const int64_t part = round_up(ceil_div(chunk, parts), kChunkUnit);
  for (int64_t row0 = 0; row0 < stored.rows; row0 += chunk) {
    throw_if_interrupted();
    const int64_t n = std::min(chunk, stored.rows - row0), used = ceil_div(n, part);
    pool.parallel_for(used, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        format.load(stored, source, row0 + i * part, std::min(part, n - i * part),
                    &rows[static_cast<size_t>(i)]);
    });
    for (int64_t i = 0; i < used; ++i) sink(rows[static_cast<size_t>(i)]);
  }
}

}  // namespace roundel
