// reference_attention: all scores of a token and a head, softmax, weighted sum; plain loops, sums in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/numeric.h"
#include "base/thread_pool.h"
#include "kernels/api/attention.h"

namespace roundel {
namespace {

Support supports(const CpuFeatures&) {
  return {};
}

void attend(const AttentionArgs& a, int64_t token, int64_t head, std::vector<double>& weights) {
  const int64_t kv_head = head / (a.heads / a.kv_heads);
  const int64_t own = a.start + token;
  const int64_t first = a.window > 0 ? std::max<int64_t>(0, own - a.window + 1) : 0;
  const float* q = a.q + token * a.ldq + head * a.head_dim;
  const auto at = [&](const void* part, int64_t i) {
    i += kv_head * a.kv_stride;
    return a.kv_bf16 ? bf16_to_float(static_cast<const uint16_t*>(part)[i])
                     : static_cast<const float*>(part)[i];
  };
  weights.resize(static_cast<size_t>(own - first + 1));
  double most = -INFINITY;
  for (int64_t p = first; p <= own; ++p) {
    double score = 0;
    for (int64_t d = 0; d < a.head_dim; ++d) score += static_cast<double>(q[d]) * at(a.k, p * a.head_dim + d);
    weights[p - first] = score * a.scale;
    most = std::max(most, weights[p - first]);
  }
  double total = 0;
  for (double& w : weights) total += w = std::exp(w - most);
  float* out = a.out + token * a.ldo + head * a.head_dim;
  for (int64_t d = 0; d < a.head_dim; ++d) {
    double sum = 0;
    for (int64_t p = first; p <= own; ++p) sum += weights[p - first] * at(a.v, p * a.head_dim + d);
    out[d] = static_cast<float>(sum / total) * a.value_scale;
  }
}

void run(const AttentionArgs* sequences, int64_t count, ThreadPool& pool) {
  for (const AttentionArgs* a = sequences; a < sequences + count; ++a) {
    pool.parallel_for(a->tokens * a->heads, 1, [&](int64_t begin, int64_t end) {
      std::vector<double> weights;
      for (int64_t i = begin; i < end; ++i) attend(*a, i / a->heads, i % a->heads, weights);
    });
  }
}

}  // namespace

extern const AttentionKernel kReferenceAttention = {"reference_attention", supports, run};

}  // namespace roundel
