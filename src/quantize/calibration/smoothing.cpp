#include "quantize/calibration/smoothing.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/thread_pool.h"
#include "scheme/target.h"

namespace roundel {
namespace {

std::string layer_prefix(int64_t layer) {
  return "model.layers." + std::to_string(layer) + ".";
}

LayerModule& find_module(LayerWeights* weights, const std::string& name) {
  const auto it = std::find_if(weights->modules.begin(), weights->modules.end(),
                               [&](const LayerModule& m) { return m.entry->module.name == name; });
  CHECK(it != weights->modules.end());
  return *it;
}

bool matches_any(const std::vector<std::string>& targets, const std::string& name) {
  return std::any_of(targets.begin(), targets.end(), [&](const std::string& t) {
    return Target(t, "smoothing mapping").match(name, "Linear").has_value();
  });
}

void check(const SmoothQuantStep& s) {
  if (s.strength && !(*s.strength >= 0 && *s.strength <= 1))
    fail(ErrorCode::kInvalid, "SmoothQuant: smoothing_strength is {}, expected 0 to 1", *s.strength);
  if (!s.strength && s.algorithm == SmoothAlgorithm::kLogEqualization)
    fail(ErrorCode::kInvalid, "SmoothQuant: log_equalization has no strength that could be searched");
}

void check(const AwqStep& s) {
  if (s.n_grid < 2 || s.n_grid > 1000)
    fail(ErrorCode::kInvalid, "AWQ: n_grid is {}, expected 2 to 1000", s.n_grid);
}

// The output of one head's values serves several query heads: the columns of o_proj are not the rows of v_proj.
bool shapes_agree(const ModelConfig& config, const SmoothPair& pair) {
  return pair.balance.front() != "self_attn.o_proj" || config.heads == config.kv_heads;
}

}  // namespace

Smoother::Smoother(const ModelFiles& files, const std::vector<CalibrationStep>& steps) : files_(files) {
  for (const CalibrationStep& step : steps) {
    Step s;
    if ((s.smoothquant = std::get_if<SmoothQuantStep>(&step))) {
      check(*s.smoothquant);
      resolve(s.smoothquant->mappings, s.smoothquant->ignore, &s);
    } else if ((s.awq = std::get_if<AwqStep>(&step))) {
      check(*s.awq);
      resolve(s.awq->mappings, s.awq->ignore, &s);
    } else {
      continue;
    }
    steps_.push_back(std::move(s));
  }
}

bool Smoother::needs_second() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& s) { return s.awq != nullptr; });
}

bool Smoother::needs_inputs() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& s) { return s.smoothquant && !s.smoothquant->strength; });
}

void Smoother::resolve(const std::vector<SmoothMapping>& mappings, const std::vector<std::string>& ignore,
                       Step* step) {
  const std::vector<SmoothPair> pairs = files_.architecture->smooth_pairs(files_.traits);
  const auto ignored = [&](const std::string& prefix, const SmoothPair& pair) {
    if (matches_any(ignore, prefix + pair.smooth)) return true;
    return std::all_of(pair.balance.begin(), pair.balance.end(),
                       [&](const std::string& b) { return matches_any(ignore, prefix + b); });
  };
  std::vector<bool> used(mappings.size());
  for (int64_t layer = 0; layer < files_.config.layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    for (const SmoothPair& pair : pairs) {
      const std::string smooth = prefix + pair.smooth;
      // What SmoothQuant of a given strength leaves out, because one strength does not suit all, is tried where it is searched.
      const bool all = step->awq || !step->smoothquant->strength;
      bool wanted = mappings.empty() && (all || pair.smooth_is_norm) && shapes_agree(files_.config, pair);
      for (size_t i = 0; i < mappings.size(); ++i) {
        if (!matches_any({mappings[i].smooth}, smooth)) continue;
        // One linear may be smoothed for several readers: the balance targets say which pair is meant.
        const auto reads = [&](const std::string& b) { return matches_any(mappings[i].balance, prefix + b); };
        if (std::none_of(pair.balance.begin(), pair.balance.end(), reads)) continue;
        for (const std::string& b : pair.balance)
          if (!reads(b))
            fail(ErrorCode::kInvalid,
                 "{}smoothing mapping \"{}\": {} reads {} too and is not among its balance layers: the model "
                 "would change",
                 mappings[i].where, mappings[i].smooth, prefix + b, smooth);
        if (!used[i] && !shapes_agree(files_.config, pair))
          log_warn(
              "{}smoothing mapping \"{}\" is left out: a head of {} serves several heads of {} "
              "(grouped-query "
              "attention)",
              mappings[i].where, mappings[i].smooth, smooth, prefix + pair.balance.front());
        used[i] = true;
        wanted = shapes_agree(files_.config, pair);
      }
      if (wanted && !ignored(prefix, pair)) step->pairs[layer].push_back(pair);
    }
  }
  for (size_t i = 0; i < mappings.size(); ++i)
    if (!used[i])
      fail(ErrorCode::kInvalid,
           "{}smoothing mapping \"{}\" with balance layers \"{}\" matches nothing that can be smoothed; "
           "possible "
           "in each layer are input_layernorm, post_attention_layernorm, v_proj before o_proj and up_proj "
           "before down_proj",
           mappings[i].where, mappings[i].smooth, fmt::join(mappings[i].balance, "\", \""));
}

namespace {

std::vector<float> largest_weights(const std::vector<const LayerModule*>& balance) {
  std::vector<float> largest(static_cast<size_t>(balance.front()->weight.cols));
  for (const LayerModule* m : balance)
    for (int64_t r = 0; r < m->weight.rows; ++r)
      for (size_t c = 0; c < largest.size(); ++c)
        largest[c] = std::max(largest[c], std::abs(m->weight.row(r)[c]));
  return largest;
}

void multiply_columns(LayerModule* m, const std::vector<float>& s, ThreadPool& pool) {
  pool.parallel_for(m->weight.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (size_t c = 0; c < s.size(); ++c) m->weight.row(r)[c] *= s[c];
  });
  round_matrix(&m->weight, m->entry->module.dtype, pool);
}

// The last s.size() rows: of a merged linear those of the values, or of the up projection.
void divide_rows(LayerModule* m, std::vector<float>* bias, const std::vector<float>& s, ThreadPool& pool) {
  const int64_t first = m->weight.rows - static_cast<int64_t>(s.size());
  CHECK(first >= 0);
  for (size_t i = 0; i < s.size(); ++i) {
    float* row = m->weight.row(first + static_cast<int64_t>(i));
    for (int64_t c = 0; c < m->weight.cols; ++c) row[c] /= s[i];
    if (bias) {
      float& b = (*bias)[static_cast<size_t>(first) + i];
      b = round_to(m->entry->module.dtype, b / s[i]);
    }
  }
  round_matrix(&m->weight, m->entry->module.dtype, pool);
}

void fold(const ModelFiles& files, LayerWeights* weights, const SmoothPair& pair, const std::vector<float>& s,
          InputMoments& moments, ThreadPool& pool) {
  if (pair.smooth_is_norm) {
    const std::string name = weights->prefix + pair.smooth + ".weight";
    std::vector<float>& gain = weights->vectors.at(name);
    const DType dtype = files.checkpoint.find(name)->dtype;
    for (size_t c = 0; c < s.size(); ++c) gain[c] = round_to(dtype, gain[c] / s[c]);
  } else {
    const std::string name = weights->prefix + pair.smooth;
    const auto bias = weights->vectors.find(name + ".bias");
    divide_rows(&find_module(weights, name), bias == weights->vectors.end() ? nullptr : &bias->second, s,
                pool);
  }
  for (const std::string& b : pair.balance)
    multiply_columns(&find_module(weights, weights->prefix + b), s, pool);
  moments.rescale(s);
}

}  // namespace

std::vector<float> Smoother::scales_of(const Step& step, const InputMoments& moments, const Activations& x,
                                       const std::vector<const LayerModule*>& balance, ThreadPool& pool) {
  if (step.awq) return awq_scales(*step.awq, moments, balance, pool);
  const std::vector<float> largest = largest_weights(balance);
  return step.smoothquant->strength ? smoothquant_scales(*step.smoothquant, moments, largest)
                                    : searched_scales(moments, x, balance, largest, pool);
}

Smoothed Smoother::apply(LayerWeights* weights, StageMoments& moments, StageInputs& inputs,
                         ThreadPool& pool) const {
  Smoothed done;
  for (const Step& step : steps_) {
    const auto pairs = step.pairs.find(weights->index);
    if (pairs == step.pairs.end()) continue;
    for (const SmoothPair& pair : pairs->second) {
      std::vector<const LayerModule*> balance;
      for (const std::string& b : pair.balance) balance.push_back(&find_module(weights, weights->prefix + b));
      const auto stage = static_cast<size_t>(balance.front()->stage);
      InputMoments& m = *moments[stage];
      const std::vector<float> s = scales_of(step, m, inputs[stage], balance, pool);
      fold(files_, weights, pair, s, m, pool);
      for (int64_t t = 0; t < inputs[stage].rows; ++t)
        for (size_t c = 0; c < s.size(); ++c) inputs[stage].row(t)[c] /= s[c];
      for (const LayerModule* b : balance)
        done.steps[b->entry->module.name] += step.awq ? "awq+" : "smoothquant+";
      std::vector<float>& total = done.divided_by[stage];
      total.resize(s.size(), 1.0f);
      for (size_t c = 0; c < s.size(); ++c) total[c] *= s[c];
    }
  }
  return done;
}

std::vector<float> smoothquant_scales(const SmoothQuantStep& step, const InputMoments& moments,
                                      const std::vector<float>& largest) {
  std::vector<float> s(largest.size());
  for (size_t c = 0; c < s.size(); ++c) {
    const float range = moments.hi()[c] - moments.lo()[c], weight = 2 * largest[c];
    const auto alpha = static_cast<float>(step.strength.value());
    if (step.algorithm == SmoothAlgorithm::kLogEqualization) {
      s[c] = range / std::log2(2 + range);
    } else {
      s[c] = weight > 0 ? std::pow(range, alpha) / std::pow(weight, 1 - alpha) : range;
    }
    if (!(s[c] >= 1e-5f)) s[c] = 1e-5f;
    if (!std::isfinite(s[c])) s[c] = 1;
  }
  return s;
}

}  // namespace roundel
