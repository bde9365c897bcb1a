#include "quantize/calibration/best.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "codec/encoder.h"
#include "quantize/calibration/code_rule.h"
#include "quantize/calibration/gptq.h"

namespace roundel {
namespace {

constexpr int64_t kBlock = 128;
constexpr int kRounds = 3;

Matrix transpose(const Matrix& m, ThreadPool& pool) {
  Matrix t(m.cols, m.rows);
  pool.parallel_for(m.cols, 16, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      for (int64_t r = 0; r < m.rows; ++r) t.row(c)[r] = m.row(r)[c];
  });
  return t;
}

// y = x . w^T
Matrix product(const Matrix& x, const Matrix& w, ThreadPool& pool) {
  Matrix y(x.rows, w.rows);
  PackedMatrix(w, pool).multiply(x.row(0), x.rows, x.ld, y.row(0), y.ld, pool);
  return y;
}

Matrix columns_in_order(const Matrix& m, const std::vector<int32_t>& order, bool back) {
  Matrix out(m.rows, m.cols);
  for (int64_t r = 0; r < m.rows; ++r)
    for (size_t i = 0; i < order.size(); ++i) {
      if (back) {
        out.row(r)[order[i]] = m.row(r)[i];
      } else {
        out.row(r)[i] = m.row(r)[order[i]];
      }
    }
  return out;
}

void add(Matrix* to, const Matrix& m, ThreadPool& pool) {
  pool.parallel_for(to->rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) vector_ops().add(to->row(r), m.row(r), to->cols);
  });
}

// W + (W drift + residual) (H + damping)^-1, the inverse as U^T U.
Matrix corrected(const Matrix& w, const BestInputs& in, ThreadPool& pool) {
  if (!in.drift && !in.residual) return w.copy();
  Matrix gap(w.rows, w.cols);
  if (in.drift) gap = product(w, transpose(*in.drift, pool), pool);
  if (in.residual) add(&gap, *in.residual, pool);
  const Matrix& u = in.factor->upper;
  Matrix step = product(columns_in_order(gap, in.factor->order, false), u, pool);  // gap U^T
  step = product(step, transpose(u, pool), pool);                                  // gap U^T U
  Matrix out = columns_in_order(step, in.factor->order, true);
  add(&out, w, pool);
  return out;
}

}  // namespace

QuantizedRows quantize_best(const LayerModule& module, const QuantizedRows& nearest, const BestInputs& in,
                            ThreadPool& pool, CalibratedModule* report) {
  const QuantArgs& args = *module.entry->scheme.weights;
  const DType dtype = module.entry->module.dtype;
  if (in.factor->failed) {
    report->algorithm = "rtn";
    report->note = fmt::format(
        "the second moment of the inputs is not positive definite even with dampening {}: rounded to nearest",
        in.factor->dampening);
    return nearest;
  }
  if (in.factor->dead_count > 0) report->note = fmt::format("{} dead columns", in.factor->dead_count);
  const Matrix w = corrected(module.weight, in, pool);
  if (args.type == NumberType::kFloat) return gptq(w, args, dtype, nearest, *in.factor, kBlock, pool);
  QuantizedRows rows = nearest;
  std::vector<float> importance(static_cast<size_t>(w.cols));
  for (int64_t i = 0; i < w.cols; ++i) {
    const float d = in.factor->upper.row(i)[i];
    importance[static_cast<size_t>(in.factor->order[static_cast<size_t>(i)])] = 1.0f / (d * d);
  }
  search_scales(w, args, dtype, importance, &rows, pool);
  rows = gptq(w, args, dtype, std::move(rows), *in.factor, kBlock, pool);

  Matrix damped = in.second->copy();
  double mean = 0;
  for (int64_t c = 0; c < damped.cols; ++c) mean += static_cast<double>(damped.row(c)[c]);
  const auto add_to = static_cast<float>(in.factor->dampening * mean / static_cast<double>(damped.cols));
  for (int64_t c = 0; c < damped.cols; ++c) damped.row(c)[c] += add_to;
  refine(w, args, dtype, damped, in.factor->order, kRounds, &rows, pool);
  return rows;
}

namespace {

bool scales_are_free(const QuantArgs& args) {
  return args.strategy == Strategy::kGroup || args.strategy == Strategy::kChannel;
}

float error_of(const CodeRule& rule, const float* w, const float* importance, int64_t n, float scale,
               float zero) {
  float sum = 0;
  for (int64_t c = 0; c < n; ++c) {
    const float e = w[c] - rule.value(rule.code(w[c], scale, zero), scale, zero);
    sum += importance[c] * e * e;
  }
  return sum;
}

}  // namespace

void search_scales(const Matrix& w, const QuantArgs& args, DType dtype, const std::vector<float>& importance,
                   QuantizedRows* rows, ThreadPool& pool) {
  if (!scales_are_free(args)) return;
  constexpr int kSteps = 32;
  constexpr float kStep = 0.02f;
  const CodeRule rule(args);
  const int64_t width = group_width(args, w.cols);
  pool.parallel_for(w.rows, 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t g = 0; g < rows->groups; ++g) {
        const int64_t c0 = g * width, n = std::min(width, w.cols - c0);
        const float* x = w.row(r) + c0;
        const float lo = std::min(0.0f, *std::min_element(x, x + n));
        const float hi = std::max(0.0f, *std::max_element(x, x + n));
        const auto at = static_cast<size_t>(r * rows->groups + g);
        float least = std::numeric_limits<float>::infinity();
        Qparams best;  // where no error is finite, that of rounding to nearest stays
        best.scale = rows->scales[at];
        if (!rows->zero_points.empty()) best.zero_point = rows->zero_points[at];
        for (int i = -2; i < kSteps; ++i) {
          const float p = 1 - kStep * static_cast<float>(i);
          const Qparams q = compute_qparams(args, dtype, round_to(dtype, p * lo), round_to(dtype, p * hi));
          const float error =
              error_of(rule, x, importance.data() + c0, n, q.scale, static_cast<float>(q.zero_point));
          if (error < least) {
            least = error;
            best = q;
          }
        }
        rows->scales[at] = best.scale;
        if (!rows->zero_points.empty()) rows->zero_points[at] = static_cast<int8_t>(best.zero_point);
      }
    }
  });
}

}  // namespace roundel
