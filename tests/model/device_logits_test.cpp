// Logits of few tokens on a GPU, where activations have two terms, beside those of the CPU's float kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/cpu_features.h"
#include "kernels/device_list.h"
#include "model/loaded_model.h"

namespace roundel {
namespace {

LoadedModel load(std::optional<int> gpu) {
  const std::filesystem::path folder = ROUNDEL_TEST_DATA "/golden/dense/tiny_llama";
  return load_model(folder, {.threads = 2, .quantize = {}, .gpu = gpu});
}

// A prompt of `tokens` tokens and three single ones after it.
std::vector<float> all_logits(const LoadedModel& m, int64_t tokens) {
  KvCache cache = m.model->make_cache(1);
  const size_t vocab = static_cast<size_t>(m.model->config().vocab_size);
  std::vector<float> all;
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < tokens; ++i) prompt.push_back(11 * i % 500);
  for (int i = 0; i < 4; ++i) {
    const SequenceStep step{0, prompt};
    std::vector<float> logits(vocab);
    m.model->next_logits({&step, 1}, cache, logits.data(), static_cast<int64_t>(vocab), *m.pool);
    all.insert(all.end(), logits.begin(), logits.end());
    prompt.assign(1, 17 + i);
  }
  return all;
}

TEST(DeviceLogits, OfFewTokensAreThoseOfFloats) {
  if (device_count() == 0) GTEST_SKIP() << "no GPU";
  if (!std::getenv("ROUNDEL_ISA"))
    setenv("ROUNDEL_ISA", "baseline", 1);  // before anything asks for the CPU's features
  if (cpu_features().amx_bf16)
    GTEST_SKIP() << "AMX rounds activations to BF16: run this test alone, or with ROUNDEL_ISA=avx512";
  const LoadedModel cpu = load(std::nullopt);
  const LoadedModel device = load(0);
  for (const int64_t tokens : {1, 7, 33, 64}) {
    const std::vector<float> want = all_logits(cpu, tokens), got = all_logits(device, tokens);
    double error = 0, size = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      error += std::pow(static_cast<double>(got[i]) - want[i], 2);
      size += std::pow(static_cast<double>(want[i]), 2);
    }
    EXPECT_LT(std::sqrt(error / size), 1e-3) << tokens;  // both caches are BF16; one term leaves 3e-3
  }
}

}  // namespace
}  // namespace roundel
