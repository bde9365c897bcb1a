// The grid search of AWQ. llm-compressor measures the loss of every candidate by running the parent module on all samples;
// here it is the squared error of the linears' own outputs, which the second moment of their inputs gives exactly and
// without running anything.
#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "quantize/calibration/gptq.h"
#include "quantize/calibration/smoothing.h"

namespace roundel {
namespace {

// Of each column the mean over all rows of |w| / (largest |w| of its group in the row).
std::vector<float> relative_weights(const std::vector<const LayerModule*>& balance) {
  const int64_t cols = balance.front()->weight.cols;
  std::vector<double> sums(static_cast<size_t>(cols));
  double rows = 0;
  for (const LayerModule* m : balance) {
    const int64_t width = m->entry->scheme.weights ? group_width(*m->entry->scheme.weights, cols) : cols;
    rows += static_cast<double>(m->weight.rows);
    for (int64_t r = 0; r < m->weight.rows; ++r) {
      const float* w = m->weight.row(r);
      for (int64_t c0 = 0; c0 < cols; c0 += width) {
        const int64_t c1 = std::min(cols, c0 + width);
        float largest = 0;
        for (int64_t c = c0; c < c1; ++c) largest = std::max(largest, std::abs(w[c]));
        for (int64_t c = c0; c < c1; ++c)
          sums[static_cast<size_t>(c)] += static_cast<double>(std::abs(w[c]) / (largest + 1e-6f));
      }
    }
  }
  std::vector<float> mean(sums.size());
  for (size_t c = 0; c < sums.size(); ++c) mean[c] = static_cast<float>(sums[c] / rows);
  return mean;
}

struct Candidate {
  double ratio = 0;
  bool duo = false;
};

std::vector<Candidate> candidates(const AwqStep& step) {
  std::vector<Candidate> list;
  const auto add = [&](int points, bool duo) {
    for (int i = 0; i < points; ++i)
      list.push_back({points > 1 ? static_cast<double>(i) / (points - 1) : 0.0, duo});
  };
  switch (step.duo_scaling) {
    case DuoScaling::kOff:
      add(step.n_grid, false);
      break;
    case DuoScaling::kOn:
      add(step.n_grid - 1, true);
      list.push_back({0, false});
      break;
    case DuoScaling::kBoth:
      add(step.n_grid / 2, true);
      add(step.n_grid - step.n_grid / 2, false);
      break;
  }
  return list;
}

std::vector<float> scales_of(const Candidate& candidate, const std::vector<float>& x,
                             const std::vector<float>& w) {
  std::vector<float> s(x.size());
  const auto r = static_cast<float>(candidate.ratio);
  float least = INFINITY, most = 0;
  for (size_t c = 0; c < s.size(); ++c) {
    s[c] = std::pow(x[c], r);
    if (candidate.duo) s[c] /= std::pow(w[c], 1 - r) + 1e-4f;
    s[c] = std::max(s[c], 1e-4f);
    least = std::min(least, s[c]);
    most = std::max(most, s[c]);
  }
  const float middle = std::sqrt(most * least);
  for (float& v : s) {
    v /= middle;
    if (!(v > 0) || !std::isfinite(v)) v = 1;
  }
  return s;
}

// Of Q(W s) / s - W, times the second moment.
double loss_of(const std::vector<float>& s, const std::vector<const LayerModule*>& balance,
               const QuadraticForm& second, ThreadPool& pool) {
  double loss = 0;
  for (const LayerModule* m : balance) {
    if (!m->entry->scheme.weights) continue;
    Matrix scaled = m->weight.copy();
    pool.parallel_for(scaled.rows, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (size_t c = 0; c < s.size(); ++c) scaled.row(r)[c] *= s[c];
    });
    const QuantArgs& args = *m->entry->scheme.weights;
    const QuantizedRows rows =
        round_to_nearest(scaled, args, m->entry->module.dtype, m->entry->module.name, pool);
    Matrix error = values_of(rows, args, pool);
    pool.parallel_for(error.rows, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (size_t c = 0; c < s.size(); ++c) error.row(r)[c] = error.row(r)[c] / s[c] - m->weight.row(r)[c];
    });
    loss += second.sum(error, pool);
  }
  return loss;
}

}  // namespace

std::vector<float> awq_scales(const AwqStep& step, const InputMoments& moments,
                              const std::vector<const LayerModule*>& balance, ThreadPool& pool) {
  const QuadraticForm second(moments.second(), pool);
  const std::vector<float> w = relative_weights(balance);
  std::vector<float> best(w.size(), 1.0f);
  double least = loss_of(best, balance, second, pool);
  for (const Candidate& candidate : candidates(step)) {
    std::vector<float> s = scales_of(candidate, moments.mean_abs(), w);
    const double loss = loss_of(s, balance, second, pool);
    if (loss < least) {
      least = loss;
      best = std::move(s);
    }
  }
  return best;
}

}  // namespace roundel
