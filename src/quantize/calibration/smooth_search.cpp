// Smoothing whose strength is searched: every candidate is tried on some tokens of the calibration data with the linears as
// the engine runs them, weights and activations quantized, and the one whose outputs are nearest to the dense ones is taken.
#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "codec/encoder.h"
#include "linear/linear.h"
#include "quantize/calibration/gptq.h"
#include "quantize/calibration/smoothing.h"

namespace roundel {
namespace {

constexpr double kStrengths[] = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};

// Squares of y - wanted over those of wanted.
double distance(const Activations& y, const Activations& wanted) {
  double error = 0, whole = 0;
  for (int64_t t = 0; t < y.rows; ++t) {
    for (int64_t c = 0; c < y.cols; ++c) {
      const auto w = static_cast<double>(wanted.row(t)[c]), e = static_cast<double>(y.row(t)[c]) - w;
      error += e * e;
      whole += w * w;
    }
  }
  return whole > 0 ? error / whole : 0;
}

class Trial {
 public:
  Trial(const Activations& x, const InputMoments& moments, const std::vector<const LayerModule*>& balance,
        ThreadPool& pool)
      : x_(x), moments_(moments), pool_(pool) {
    for (const LayerModule* m : balance) {
      if (!m->entry->scheme.weights) continue;
      modules_.push_back(m);
      Activations& y = wanted_.emplace_back(x.rows, m->weight.rows);
      PackedMatrix(m->weight, pool).multiply(x.row(0), x.rows, x.ld, y.row(0), y.ld, pool);
    }
  }

  // Of the outputs of all linears when the activations are divided by s and the weights multiplied.
  double error(const std::vector<float>& s) const {
    Activations divided(x_.rows, x_.cols);
    for (int64_t t = 0; t < x_.rows; ++t)
      for (size_t c = 0; c < s.size(); ++c) divided.row(t)[c] = x_.row(t)[c] / s[c];
    double sum = 0;
    for (size_t i = 0; i < modules_.size(); ++i) {
      const LayerModule& m = *modules_[i];
      const ModuleInfo& info = m.entry->module;
      Matrix scaled = m.weight.copy();
      pool_.parallel_for(scaled.rows, 16, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          for (size_t c = 0; c < s.size(); ++c) scaled.row(r)[c] *= s[c];
      });
      round_matrix(&scaled, info.dtype, pool_);
      Scheme scheme = m.entry->scheme;
      scheme.output.reset();
      Linear linear({info.name, info.rows, info.cols, scheme, info.dtype});
      linear.pack(round_to_nearest(scaled, *scheme.weights, info.dtype, info.name, pool_));
      if (scheme.input && scheme.input->dynamic == DynamicMode::kStatic)
        set_static_scale(*scheme.input, s, linear);
      Activations y(x_.rows, info.rows);
      LinearInput input = divided.input();
      linear.forward(input, y.row(0), y.ld, pool_);
      sum += distance(y, wanted_[i]);
    }
    return sum;
  }

 private:
  void set_static_scale(const QuantArgs& args, const std::vector<float>& s, Linear& linear) const {
    float lo = 0, hi = 0;
    for (size_t c = 0; c < s.size(); ++c) {
      lo = std::min(lo, moments_.lo()[c] / s[c]);
      hi = std::max(hi, moments_.hi()[c] / s[c]);
    }
    const DType dtype = linear.spec().dtype;
    const Qparams q = compute_qparams(args, dtype, round_to(dtype, lo), round_to(dtype, hi));
    linear.set_input_scale(q.scale, q.zero_point);
  }

  const Activations& x_;
  const InputMoments& moments_;
  ThreadPool& pool_;
  std::vector<const LayerModule*> modules_;
  std::vector<Activations> wanted_;
};

}  // namespace

std::vector<float> searched_scales(const InputMoments& moments, const Activations& x,
                                   const std::vector<const LayerModule*>& balance,
                                   const std::vector<float>& largest, ThreadPool& pool) {
  const Trial trial(x, moments, balance, pool);
  std::vector<float> best(largest.size(), 1.0f);
  double least = trial.error(best);
  for (const double strength : kStrengths) {
    std::vector<float> s = smoothquant_scales({.strength = strength}, moments, largest);
    const double error = trial.error(s);
    if (error < least) {
      least = error;
      best = std::move(s);
    }
  }
  return best;
}

void TokenSample::add(const Activations& x) {
  if (rows_.rows == 0) rows_ = Activations(kMost, x.cols);
  CHECK(x.cols == rows_.cols);
  for (int64_t t = 0; t < x.rows; ++t, ++seen_)
    if (seen_ % step_ == 0 && taken_ < kMost) std::copy_n(x.row(t), x.cols, rows_.row(taken_++));
}

Activations TokenSample::take() {
  Activations taken(taken_, rows_.cols);
  for (int64_t t = 0; t < taken_; ++t) std::copy_n(rows_.row(t), rows_.cols, taken.row(t));
  rows_ = {};
  return taken;
}

}  // namespace roundel
