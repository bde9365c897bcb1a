#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>
#include <vector>

#include "base/rng.h"

namespace roundel {
namespace {

void penalize(std::span<float> logits, double penalty, std::span<const int32_t> history) {
  const std::unordered_set<int32_t> seen(history.begin(), history.end());
  for (const int32_t id : seen) {
    float& l = logits[static_cast<size_t>(id)];
    l = static_cast<float>(l > 0 ? l / penalty : l * penalty);
  }
}

}  // namespace

DrawRow draw_row(const SamplingParams& p, uint64_t step) {
  return {p.temperature, p.top_p, p.min_p, p.repetition_penalty, p.top_k, p.seed, step};
}

int32_t sample(std::span<float> logits, const SamplingParams& params, std::span<const int32_t> history,
               uint64_t step) {
  if (params.repetition_penalty != 1) penalize(logits, params.repetition_penalty, history);
  if (params.temperature <= 0)
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());

  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  auto better = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < order.size()) {
    std::partial_sort(order.begin(), order.begin() + params.top_k, order.end(), better);
    order.resize(static_cast<size_t>(params.top_k));
  } else {
    std::sort(order.begin(), order.end(), better);
  }
  std::vector<double> weight(order.size());
  const double top = logits[static_cast<size_t>(order[0])];
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    weight[i] = std::exp((logits[static_cast<size_t>(order[i])] - top) / params.temperature);
    sum += weight[i];
  }
  double kept = 0;
  size_t count = 0;
  while (count < order.size() && (count == 0 || (kept < params.top_p * sum && weight[count] >= params.min_p)))
    kept += weight[count++];
  double mark = random_unit(params.seed, step) * kept;
  for (size_t i = 0; i < count; ++i) {
    mark -= weight[i];
    if (mark < 0) return order[i];
  }
  return order[count - 1];
}

}  // namespace roundel
