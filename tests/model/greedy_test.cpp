// decode_greedy() against next_logits() token by token, on the CPU and, where there is one, on a GPU: there more tokens
// than it takes without the host, several sequences, and a second run that continues the first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "kernels/device_list.h"
#include "model/loaded_model.h"
#include "scheme/scheme_text.h"

namespace roundel {
namespace {

const std::filesystem::path kDense = ROUNDEL_TEST_DATA "/golden/dense/tiny_llama";

LoadedModel load(const char* scheme, std::optional<int> gpu) {
  LoadOptions options{.threads = 2, .quantize = {}, .gpu = gpu};
  if (*scheme) {
    PlanRequest request;
    request.groups.push_back({"", {"Linear"}, parse_scheme_text(scheme, "test").scheme});
    request.default_ignore = {"lm_head"};
    options.quantize = request;
  }
  return load_model(kDense, options);
}

// Slots of different lengths, and the token that each is to continue with.
struct Sequences {
  Sequences(const LoadedModel& loaded, int64_t count) : m(loaded), cache(m.model->make_cache(count)) {
    std::vector<float> logits(static_cast<size_t>(m.model->config().vocab_size));
    for (int64_t s = 0; s < count; ++s) {
      std::vector<int32_t> prompt;
      for (int32_t i = 0; i < 3 + 5 * s; ++i) prompt.push_back(static_cast<int32_t>((7 * s + 11 * i) % 500));
      const SequenceStep step{s, prompt};
      m.model->next_logits({&step, 1}, cache, logits.data(), static_cast<int64_t>(logits.size()), *m.pool);
      last.push_back(most(logits));
    }
  }
  static int32_t most(std::span<const float> row) {
    return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
  }
  std::vector<SequenceStep> steps() const {
    std::vector<SequenceStep> list;
    for (size_t s = 0; s < last.size(); ++s) list.push_back({static_cast<int64_t>(s), {&last[s], 1}});
    return list;
  }

  const LoadedModel& m;
  KvCache cache;
  std::vector<int32_t> last;
};

void compare(const LoadedModel& loaded, int64_t count) {
  const size_t n = static_cast<size_t>(count), vocab = static_cast<size_t>(loaded.model->config().vocab_size);
  Sequences one(loaded, count), many(loaded, count);
  ASSERT_EQ(one.last, many.last);
  for (const int64_t run : {40, 3}) {
    std::vector<int32_t> want, got(static_cast<size_t>(run) * n);
    std::vector<float> logits(n * vocab);
    for (int64_t i = 0; i < run; ++i) {
      loaded.model->next_logits(one.steps(), one.cache, logits.data(), static_cast<int64_t>(vocab),
                                *loaded.pool);
      for (size_t s = 0; s < n; ++s)
        want.push_back(one.last[s] = Sequences::most(std::span(logits).subspan(s * vocab, vocab)));
    }
    loaded.model->decode_greedy(many.steps(), many.cache, run, got.data(), *loaded.pool);
    EXPECT_EQ(got, want) << count << " sequences";
    many.last.assign(got.end() - count, got.end());
    for (int64_t s = 0; s < count; ++s) EXPECT_EQ(one.cache.length(s), many.cache.length(s));
  }
}

TEST(Greedy, TokensAreThoseOfTheLargestLogits) {
  compare(load("", std::nullopt), 2);
}

TEST(Greedy, TokensAreThoseOfTheLargestLogitsOnAGpu) {
  if (device_count() == 0) GTEST_SKIP() << "no GPU";
  for (const char* scheme : {"", "W4A16:g128", "W8A8", "FP8_DYNAMIC"}) {
    const LoadedModel loaded = load(scheme, 0);
    for (const int64_t count : {1, 3, 20}) compare(loaded, count);
  }
}

// Room for the model and little more: requests that do not fit are errors, and leave those that fit as they were.
TEST(Greedy, AfterARequestThatDoesNotFitSmallerOnesRunOnAGpu) {
  if (device_count() == 0) GTEST_SKIP() << "no GPU";
  setenv("ROUNDEL_GPU_MEMORY_MIB", "140", 1);
  const LoadedModel loaded = load("W4A16:g128", 0);
  unsetenv("ROUNDEL_GPU_MEMORY_MIB");
  compare(loaded, 3);
  const Model& model = *loaded.model;
  const size_t before = model.device()->allocated();
  for (int i = 0; i < 5; ++i) {  // the cache
    KvCache cache = model.make_cache(8192);
    EXPECT_THROW(
        {
          for (int64_t s = 0; s < 8192; ++s) cache.reserve(s, 64);
        },
        Error);
  }
  EXPECT_EQ(model.device()->allocated(), before);
  const std::vector<int32_t> prompt(500, 7);
  for (int i = 0; i < 5; ++i) {  // activations
    KvCache cache = model.make_cache(80);
    std::vector<SequenceStep> steps;
    for (int64_t s = 0; s < 80; ++s) steps.push_back({s, prompt});
    std::vector<float> logits(80 * 512);
    EXPECT_THROW(model.next_logits(steps, cache, logits.data(), 512, *loaded.pool), Error);
    for (int64_t s = 0; s < 80; ++s) EXPECT_EQ(cache.length(s), 0);
  }
  EXPECT_LE(model.device()->allocated(), before);
  for (const int64_t count : {1, 3, 20}) compare(loaded, count);
}

TEST(Greedy, AModelThatDoesNotFitIsRefusedBeforeItIsRead) {
  if (device_count() == 0) GTEST_SKIP() << "no GPU";
  setenv("ROUNDEL_GPU_MEMORY_MIB", "50", 1);
  try {
    load("", 0);
    FAIL() << "it fits";
  } catch (const Error& e) {
    const std::string text = e.what();
    for (const char* part : {"cuda:0 has no room for the model", "weights need", "50 of ", "MiB are free"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  unsetenv("ROUNDEL_GPU_MEMORY_MIB");
}

}  // namespace
}  // namespace roundel
