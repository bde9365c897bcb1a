#include "codec/encoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "codec/dequantize.h"
#include "codec/qparams.h"
#include "codec/range_search.h"
#include "kernels/list.h"
#include "tensor/tensor.h"

namespace roundel {
namespace {

SourceType source_type(DType dtype) {
  if (dtype == DType::kBF16) return SourceType::kBF16;
  return dtype == DType::kF16 ? SourceType::kF16 : SourceType::kF32;
}

void require_encodable(const QuantArgs& args, DType source, const std::string& module) {
  const auto refuse = [&](const std::string& what) {
    fail(ErrorCode::kUnsupported, "{}.weight: {}", module, what);
  };
  if (!is_float_source(source)) {
    refuse(fmt::format("has dtype {}, weights of BF16, F16 and F32 can be quantized", dtype_name(source)));
  }
  const bool fp8 = args.type == NumberType::kFloat && args.num_bits == 8 && args.symmetric;
  const bool integer = args.type == NumberType::kInt && args.num_bits >= 2 && args.num_bits <= 8;
  if (!fp8 && !integer) {
    refuse(fmt::format(
        "cannot be quantized to {}; possible are integers of 2 to 8 bits and symmetric 8-bit floats",
        describe(args)));
  }
  const bool known = args.strategy == Strategy::kTensor || args.strategy == Strategy::kChannel ||
                     (args.strategy == Strategy::kGroup && args.group_size > 0) ||
                     (args.strategy == Strategy::kBlock && args.block_rows > 0 && args.block_cols > 0);
  if (!known) {
    refuse(fmt::format("cannot be quantized with strategy {}; possible are tensor, channel, group and block",
                       strategy_name(args.strategy)));
  }
}

}  // namespace

bool encodes_by_groups(const QuantArgs& args, DType source) {
  const bool fp8 = args.type == NumberType::kFloat && args.num_bits == 8 && args.symmetric;
  const bool integer = args.type == NumberType::kInt && args.num_bits >= 2 && args.num_bits <= 8;
  const bool rows =
      args.strategy == Strategy::kChannel || (args.strategy == Strategy::kGroup && args.group_size > 0);
  return is_float_source(source) && (fp8 || integer) && rows && args.scale_dtype.empty() &&
         args.observer != "memoryless_mse";
}

WeightEncoder::WeightEncoder(const QuantArgs& args, int64_t rows, int64_t cols, DType source,
                             std::string module, bool allow_not_finite)
    : args_(args),
      rows_(rows),
      cols_(cols),
      source_(source),
      module_(std::move(module)),
      allow_not_finite_(allow_not_finite),
      search_(args, source) {
  require_encodable(args_, source_, module_);
  if (args_.strategy == Strategy::kTensor) {
    block_rows_ = std::max<int64_t>(1, rows_);
    block_cols_ = std::max<int64_t>(1, cols_);
  } else if (args_.strategy == Strategy::kBlock) {
    block_rows_ = args_.block_rows;
    block_cols_ = args_.block_cols;
  }
  if (block_rows_ > 0) {
    const auto blocks = static_cast<size_t>(ceil_div(rows_, block_rows_) * ceil_div(cols_, block_cols_));
    lo_.assign(blocks, 0);
    hi_.assign(blocks, 0);
    errors_.assign(blocks * static_cast<size_t>(search_.steps()), 0);
  }
}

int WeightEncoder::passes_wanted() const {
  const bool chunks_cut = args_.strategy == Strategy::kTensor ||
                          (args_.strategy == Strategy::kBlock && kChunkUnit % args_.block_rows != 0);
  return !chunks_cut ? 0 : search_.on() ? 2 : 1;
}

void WeightEncoder::report(const std::vector<RowFault>& faults, int64_t row0) {
  int64_t count = 0, row = -1, col = -1;
  for (size_t r = 0; r < faults.size(); ++r) {
    if (faults[r].count > 0 && row < 0) {
      row = row0 + static_cast<int64_t>(r);
      col = faults[r].first;
    }
    count += faults[r].count;
  }
  not_finite_ += count;
  if (count == 0 || allow_not_finite_) return;
  const int64_t last = row0 + static_cast<int64_t>(faults.size()) - 1;
  fail(ErrorCode::kInvalid,
       "{}.weight: {} of the values in rows {} to {} of {} {} NaN or infinite, the first at [{}, {}]. The "
       "checkpoint may "
       "be damaged; allow such values to quantize it all the same",
       module_, count, row0, last, rows_, count == 1 ? "is" : "are", row, col);
}

void WeightEncoder::observe(const void* source, int64_t row0, int64_t rows, ThreadPool& pool) {
  CHECK(block_rows_ > 0 && passes_ < 2);
  if (passes_ == 0)
    find_ranges(source, row0, rows, pool);
  else
    sum_errors(source, row0, rows, pool);
}

void WeightEncoder::find_ranges(const void* source, int64_t row0, int64_t rows, ThreadPool& pool) {
  const EncodeOps& ops = encode_ops();
  const SourceType type = source_type(source_);
  const auto element = static_cast<int64_t>(dtype_size(source_));
  const int64_t blocks = blocks_across();
  std::vector<float> lo(static_cast<size_t>(rows * blocks)), hi(lo.size());
  std::vector<RowFault> faults(static_cast<size_t>(rows));
  pool.parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const char* x = static_cast<const char*>(source) + r * cols_ * element;
      RowFault& fault = faults[static_cast<size_t>(r)];
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t c = b * block_cols_;
        const RangeResult range = ops.range(type, x + c * element, std::min(block_cols_, cols_ - c));
        lo[static_cast<size_t>(r * blocks + b)] = range.lo;
        hi[static_cast<size_t>(r * blocks + b)] = range.hi;
        if (range.not_finite > 0 && fault.first < 0) fault.first = c + range.first_not_finite;
        fault.count += range.not_finite;
      }
    }
  });
  report(faults, row0);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t to = (row0 + r) / block_rows_ * blocks;
    for (int64_t b = 0; b < blocks; ++b) {
      const auto i = static_cast<size_t>(to + b), j = static_cast<size_t>(r * blocks + b);
      lo_[i] = std::min(lo_[i], lo[j]);
      hi_[i] = std::max(hi_[i], hi[j]);
    }
  }
}

void WeightEncoder::sum_errors(const void* source, int64_t row0, int64_t rows, ThreadPool& pool) {
  const QparamsRule rule(args_, source_);
  const auto element = static_cast<int64_t>(dtype_size(source_));
  const int64_t blocks = blocks_across(), steps = search_.steps();
  std::vector<double> sums(static_cast<size_t>(rows * blocks * steps));
  pool.parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const char* x = static_cast<const char*>(source) + r * cols_ * element;
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t c = b * block_cols_;
        const auto of = static_cast<size_t>((row0 + r) / block_rows_ * blocks + b);
        search_.add_errors(rule, x + c * element, std::min(block_cols_, cols_ - c), {lo_[of], hi_[of]},
                           sums.data() + (r * blocks + b) * steps);
      }
    }
  });
  for (int64_t r = 0; r < rows; ++r) {  // in the order of rows: the sums do not depend on threads or chunks
    double* to = errors_.data() + (row0 + r) / block_rows_ * blocks * steps;
    for (int64_t i = 0; i < blocks * steps; ++i) to[i] += sums[static_cast<size_t>(r * blocks * steps + i)];
  }
}

// Encodes single rows of a chunk.
class WeightEncoder::RowCoder {
 public:
  RowCoder(const WeightEncoder& encoder, const void* source, int64_t row0, int64_t rows)
      : e_(encoder),
        ops_(encode_ops()),
        rule_(encoder.args_, encoder.source_),
        type_(source_type(encoder.source_)),
        element_(static_cast<int64_t>(dtype_size(encoder.source_))),
        width_(group_width(encoder.args_, encoder.cols_)),
        source_(static_cast<const char*>(source)),
        row0_(row0) {
    if (e_.block_rows_ == 0 || rows == 0) return;
    const int64_t groups = ceil_div(e_.cols_, width_);
    const int64_t first = row0 / e_.block_rows_ * groups;
    const int64_t last = ((row0 + rows - 1) / e_.block_rows_ + 1) * groups;
    for (int64_t i = first; i < last; ++i) {
      const RangeResult range{e_.lo_[static_cast<size_t>(i)], e_.hi_[static_cast<size_t>(i)]};
      blocks_.push_back(e_.search_.on()
                            ? e_.search_.pick(rule_, range, e_.errors_.data() + i * e_.search_.steps())
                            : rule_(range.lo, range.hi));
    }
  }

  const char* row(int64_t r) const { return source_ + r * e_.cols_ * element_; }

  RowFault encode(int64_t r, QuantizedRows* out) const {
    const char* x = row(r);
    int8_t* codes = out->codes.data() + r * e_.cols_;
    float* scales = out->scales.data() + r * out->groups;
    int8_t* zeros = e_.args_.symmetric ? nullptr : out->zero_points.data() + r * out->groups;
    const Qparams* block = blocks_.empty() ? nullptr : block_row(r, out->groups);
    RowFault fault;
    for (int64_t g = 0, c = 0; g < out->groups; ++g, c += width_) {
      const int64_t n = std::min(width_, e_.cols_ - c);
      const Qparams q = block ? block[g] : of_range(x + c * element_, n, c, &fault);
      scales[g] = q.scale;
      if (zeros) zeros[g] = static_cast<int8_t>(q.zero_point);
      if (e_.args_.type == NumberType::kFloat) {
        ops_.encode_e4m3(type_, x + c * element_, n, q.scale, reinterpret_cast<uint8_t*>(codes + c));
      } else {
        ops_.encode_int(type_, x + c * element_, n, q.scale, static_cast<float>(q.zero_point), rule_.qmin(),
                        rule_.qmax(), codes + c);
      }
    }
    return fault;
  }

 private:
  const Qparams* block_row(int64_t r, int64_t groups) const {
    return blocks_.data() + ((row0_ + r) / e_.block_rows_ - row0_ / e_.block_rows_) * groups;
  }
  Qparams of_range(const char* x, int64_t n, int64_t column, RowFault* fault) const {
    const RangeResult range = ops_.range(type_, x, n);
    if (range.not_finite > 0) {
      if (fault->first < 0) fault->first = column + range.first_not_finite;
      fault->count += range.not_finite;
    }
    if (e_.search_.on() && range.not_finite == 0) return e_.search_.best(rule_, x, n, range);
    return rule_(range.lo, range.hi);
  }

  const WeightEncoder& e_;
  const EncodeOps& ops_;
  QparamsRule rule_;
  SourceType type_;
  int64_t element_, width_;
  const char* source_;
  int64_t row0_;
  std::vector<Qparams> blocks_;  // of this chunk
};

void WeightEncoder::encode(const void* source, int64_t row0, int64_t rows, QuantizedRows* out,
                           ThreadPool& pool) {
  CHECK(row0 % kChunkUnit == 0 && row0 + rows <= rows_);
  CHECK(!wants_pass());
  if (block_rows_ > 0 && passes_ == 0) {  // whole blocks
    find_ranges(source, row0, rows, pool);
    if (search_.on()) sum_errors(source, row0, rows, pool);
  }
  out->row0 = row0;
  out->rows = rows;
  out->cols = cols_;
  out->groups = ceil_div(cols_, group_width(args_, cols_));
  out->codes.resize(static_cast<size_t>(rows * cols_));
  out->scales.resize(static_cast<size_t>(rows * out->groups));
  out->zero_points.resize(args_.symmetric ? 0 : out->scales.size());

  const RowCoder coder(*this, source, row0, rows);
  std::vector<RowFault> faults(static_cast<size_t>(rows));
  std::vector<RowError> errors(measure_error_ ? static_cast<size_t>(rows) : 0);
  pool.parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    RowErrorMeter meter(args_, source_, measure_error_ ? cols_ : 0);
    for (int64_t r = begin; r < end; ++r) {
      faults[static_cast<size_t>(r)] = coder.encode(r, out);
      if (measure_error_) errors[static_cast<size_t>(r)] = meter.measure(coder.row(r), *out, r);
    }
  });
  report(faults, row0);
  for (const RowError& e : errors) {  // in the order of rows: the sums do not depend on threads or chunks
    error_sum_ += e.error;
    weight_sum_ += e.weight;
  }
}

}  // namespace roundel
