#include "eval/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/process.h"
#include "base/thread_pool.h"
#include "codec/encoder.h"

namespace roundel {
namespace {

// Rows of one module's weight as floats, from either kind of checkpoint.
class WeightRowsReader {
 public:
  WeightRowsReader(const ModelFiles& files, const PlanEntry& entry)
      : files_(files), entry_(entry), stored_(files.find_stored(entry.module.name)) {
    if (stored_) group_of_column_ = load_group_index(*stored_, files.checkpoint);
  }
  // out: (rows,cols). The codes of the rows stay available.
  void read(int64_t row0, int64_t rows, std::vector<float>& out) {
    const int64_t cols = entry_.module.cols;
    out.resize(static_cast<size_t>(rows * cols));
    if (!stored_) {
      const TensorSpec* spec = files_.checkpoint.find(weight_name(entry_.module.name));
      CHECK(spec != nullptr);
      const size_t size = dtype_size(spec->dtype);
      raw_.resize(out.size() * size);
      files_.checkpoint.read(*spec, static_cast<uint64_t>(row0 * cols) * size, raw_.data(), raw_.size());
      widen_to_float(spec->dtype, raw_.data(), out.data(), out.size());
      return;
    }
    find_format(stored_->scheme.format, stored_->module)
        .load(*stored_, files_.checkpoint, row0, rows, &codes_);
    if (group_of_column_.empty()) {
      dequantize(*stored_->scheme.weights, stored_->scale_dtype, codes_, out.data());
    } else {
      dequantize_by_index(out);
    }
  }
  bool quantized() const { return stored_ != nullptr; }
  int64_t codes_at_limits() const {
    const QuantArgs& w = *stored_->scheme.weights;
    const bool integers = w.type == NumberType::kInt;
    const int lo = static_cast<int>(w.qmin()), hi = static_cast<int>(w.qmax());
    return std::count_if(codes_.codes.begin(), codes_.codes.end(),
                         [&](int8_t c) { return integers ? c == lo || c == hi : (c & 0x7f) == 0x7e; });
  }

 private:
  void dequantize_by_index(std::vector<float>& out) const {
    for (int64_t r = 0; r < codes_.rows; ++r)
      for (int64_t c = 0; c < codes_.cols; ++c) {
        const size_t g = static_cast<size_t>(r * codes_.groups + group_of_column_[static_cast<size_t>(c)]);
        const int zero = codes_.zero_points.empty() ? 0 : codes_.zero_points[g];
        const size_t i = static_cast<size_t>(r * codes_.cols + c);
        out[i] =
            round_to(stored_->scale_dtype, static_cast<float>(codes_.codes[i] - zero) * codes_.scales[g]);
      }
  }

  const ModelFiles& files_;
  const PlanEntry& entry_;
  const StoredWeight* stored_;
  std::vector<int32_t> group_of_column_;
  std::vector<uint8_t> raw_;
  QuantizedRows codes_;
};

std::string scheme_name(const PlanEntry& e) {
  return e.scheme.weights ? describe(e.scheme) : std::string(dtype_name(e.module.dtype));
}

TensorComparison compare_one(const ModelFiles& fa, const PlanEntry& a, const ModelFiles& fb,
                             const PlanEntry& b) {
  TensorComparison out{a.module.name, scheme_name(a), scheme_name(b), a.module.rows, a.module.cols};
  WeightRowsReader ra(fa, a), rb(fb, b);
  std::vector<float> x, y;
  double signal = 0, noise = 0;
  int64_t limits = 0;
  const int64_t chunk = chunk_rows(a.module.cols, 4);
  for (int64_t row0 = 0; row0 < a.module.rows; row0 += chunk) {
    throw_if_interrupted();
    const int64_t n = std::min(chunk, a.module.rows - row0);
    ra.read(row0, n, x);
    rb.read(row0, n, y);
    for (size_t i = 0; i < x.size(); ++i) {
      const double e = static_cast<double>(x[i]) - static_cast<double>(y[i]);
      signal += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      noise += e * e;
      out.max_error = std::max(out.max_error, std::abs(e));
    }
    if (rb.quantized()) limits += rb.codes_at_limits();
  }
  out.sqnr_db = noise > 0 ? 10 * std::log10(signal / noise) : std::numeric_limits<double>::infinity();
  out.relative_error = signal > 0 ? std::sqrt(noise / signal) : 0;
  if (rb.quantized())
    out.share_at_limits = static_cast<double>(limits) /
                          (static_cast<double>(a.module.rows) * static_cast<double>(a.module.cols));
  return out;
}

}  // namespace

std::vector<TensorComparison> compare_weights(const ModelFiles& a, const ModelFiles& b, ThreadPool& pool) {
  Problems problems;
  for (const PlanEntry& e : a.stored_plan.entries) {
    const PlanEntry* other = b.stored_plan.find(e.module.name);
    if (!other) {
      problems.add(e.module.name, "is only in " + a.checkpoint.folder().string());
    } else if (other->module.rows != e.module.rows || other->module.cols != e.module.cols) {
      problems.add(e.module.name, fmt::format("is {} in the first and {} in the second",
                                              shape_text({e.module.rows, e.module.cols}),
                                              shape_text({other->module.rows, other->module.cols})));
    }
  }
  for (const PlanEntry& e : b.stored_plan.entries)
    if (!a.stored_plan.find(e.module.name))
      problems.add(e.module.name, "is only in " + b.checkpoint.folder().string());
  problems.throw_if_any("the two checkpoints are not of one model");

  std::vector<TensorComparison> rows(a.stored_plan.entries.size());
  pool.parallel_for(static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const PlanEntry& e = a.stored_plan.entries[static_cast<size_t>(i)];
      rows[static_cast<size_t>(i)] = compare_one(a, e, b, *b.stored_plan.find(e.module.name));
    }
  });
  return rows;
}

}  // namespace roundel
