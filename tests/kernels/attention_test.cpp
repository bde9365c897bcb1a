// Every listed attention kernel that this CPU supports, against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/cpu_features.h"
#include "base/numeric.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "kernels/list.h"

namespace roundel {
namespace {

struct Shape {
  int64_t tokens, start, heads, kv_heads, head_dim, window;
};
constexpr Shape kShapes[] = {
    {1, 0, 1, 1, 8, 0},    {1, 63, 4, 2, 64, 0},   {1, 64, 9, 3, 64, 0},     {5, 0, 4, 4, 16, 0},
    {7, 60, 6, 1, 40, 0},  {65, 0, 4, 2, 64, 0},   {130, 3, 3, 3, 32, 0},    {20, 200, 8, 2, 128, 0},
    {3, 10, 2, 1, 256, 0}, {100, 0, 4, 2, 64, 10}, {1, 300, 4, 1, 64, 64},   {70, 150, 14, 2, 24, 65},
    {4, 130, 2, 2, 13, 0}, {9, 70, 2, 1, 100, 1},  {2, 500, 71, 1, 64, 128},
};

struct Case {
  Case(const Shape& s, bool bf16) : shape(s) {
    const int64_t positions = s.start + s.tokens + 2;
    args.tokens = s.tokens, args.start = s.start, args.heads = s.heads, args.kv_heads = s.kv_heads;
    args.head_dim = s.head_dim, args.window = s.window;
    args.scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
    args.ldq = s.heads * s.head_dim + 5;
    args.ldo = s.heads * s.head_dim + 3;
    args.kv_stride = positions * s.head_dim;
    fill(q, s.tokens * args.ldq, 1);
    fill(k, s.kv_heads * args.kv_stride, 2);
    fill(v, s.kv_heads * args.kv_stride, 3);
    // Positions after the last token have not been written: nothing of them may be seen.
    for (int64_t h = 0; h < s.kv_heads; ++h) {
      for (int64_t i = (positions - 2) * s.head_dim; i < positions * s.head_dim; ++i) {
        k[h * args.kv_stride + i] = v[h * args.kv_stride + i] = std::numeric_limits<float>::quiet_NaN();
      }
    }
    args.q = q.data(), args.k = k.data(), args.v = v.data(), args.kv_bf16 = bf16;
    if (!bf16) return;
    for (const float x : k) k_bf16.push_back(float_to_bf16(x));
    for (const float x : v) v_bf16.push_back(float_to_bf16(x));
    args.k = k_bf16.data(), args.v = v_bf16.data(), args.value_scale = 0.75f;
  }
  static void fill(std::vector<float>& x, int64_t n, uint64_t seed) {
    x.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(4 * random_unit(seed, i) - 2);
  }
  std::vector<float> run(const AttentionKernel& kernel, ThreadPool& pool) const {
    std::vector<float> out(static_cast<size_t>(shape.tokens * args.ldo), -7.0f);
    AttentionArgs a = args;
    a.out = out.data();
    kernel.run(a, pool);
    return out;
  }
  Shape shape;
  AttentionArgs args;
  std::vector<float> q, k, v;
  std::vector<uint16_t> k_bf16, v_bf16;
};

// Every shape with a cache of floats and one of BF16.
std::vector<Case> cases() {
  std::vector<Case> all;
  all.reserve(2 * std::size(kShapes));  // the arguments point into them
  for (const Shape& shape : kShapes)
    for (const bool bf16 : {false, true}) all.emplace_back(shape, bf16);
  return all;
}

TEST(Attention, KernelsAgreeWithReference) {
  ThreadPool one(1), two(2), four(4);
  for (const Case& c : cases()) {
    const Shape& shape = c.shape;
    const std::vector<float> wanted = c.run(*attention_kernels().back(), one);
    for (const AttentionKernel* kernel : attention_kernels()) {
      if (!kernel->supports(cpu_features()).ok) continue;
      SCOPED_TRACE(std::string(kernel->name) + " tokens " + std::to_string(shape.tokens) + " start " +
                   std::to_string(shape.start) + " head_dim " + std::to_string(shape.head_dim) +
                   (c.args.kv_bf16 ? " bf16" : ""));
      const std::vector<float> out = c.run(*kernel, one);
      // Weights sum to 1 and |v| <= 2. A score of head_dim products, each at most 4, times scale is wrong by
      // head_dim * 4 * scale * head_dim * 2^-24 at most, in practice by its square root; exp turns that into a
      // relative error of the weights.
      const double d = static_cast<double>(shape.head_dim);
      const double scale = static_cast<double>(c.args.scale);
      double budget = 2 * (4 * d * scale * std::sqrt(d) + 64) * std::ldexp(1.0, -23);
      // Rounding to BF16 makes each product of a score wrong by 2^-7 of it at most, weights and values by 2^-8.
      if (kernel->rounds_to_bf16) budget += 2 * (4 * scale * std::sqrt(d) + 2) * std::ldexp(1.0, -8);
      for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], wanted[i], budget) << i;
      ASSERT_EQ(out, c.run(*kernel, two)) << "two threads differ from one";
      ASSERT_EQ(out, c.run(*kernel, four)) << "four threads differ from one";
    }
  }
}

// A token alone (decode) gives the same numbers as among others (prefill).
TEST(Attention, DecodeEqualsPrefill) {
  ThreadPool pool(1);
  for (const Case& c : cases()) {
    const Shape& shape = c.shape;
    for (const AttentionKernel* kernel : attention_kernels()) {
      if (!kernel->supports(cpu_features()).ok) continue;
      const std::vector<float> all = c.run(*kernel, pool);
      for (int64_t t = 0; t < shape.tokens; t += 3) {
        AttentionArgs a = c.args;
        std::vector<float> out(static_cast<size_t>(a.ldo), -7.0f);
        a.tokens = 1, a.start += t, a.q += t * a.ldq, a.out = out.data();
        kernel->run(a, pool);
        for (int64_t i = 0; i < shape.heads * shape.head_dim; ++i) {
          ASSERT_EQ(out[i], all[t * a.ldo + i]) << kernel->name << " token " << t << " of " << shape.tokens;
        }
      }
    }
  }
}

// Sequences of different lengths in one call: the bits of each alone.
TEST(Attention, SequencesTogetherEqualEachAlone) {
  const std::vector<Case> list = cases();
  for (const AttentionKernel* kernel : attention_kernels()) {
    if (!kernel->supports(cpu_features()).ok) continue;
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      std::vector<AttentionArgs> all;
      std::vector<std::vector<float>> out(list.size());
      for (size_t i = 0; i < list.size(); ++i) {
        out[i].assign(static_cast<size_t>(list[i].shape.tokens * list[i].args.ldo), -7.0f);
        all.push_back(list[i].args);
        all.back().out = out[i].data();
        all.push_back(list[i].args);
        all.back().tokens = 0;  // nothing new in this one
        all.back().out = nullptr;
      }
      kernel->run_all(all.data(), static_cast<int64_t>(all.size()), pool);
      for (size_t i = 0; i < list.size(); ++i)
        ASSERT_EQ(out[i], list[i].run(*kernel, pool)) << kernel->name << " " << i;
    }
  }
}

// One key: its value. Equal keys: the mean of the values.
TEST(Attention, ByHand) {
  ThreadPool pool(1);
  for (const AttentionKernel* kernel : attention_kernels()) {
    if (!kernel->supports(cpu_features()).ok) continue;
    std::vector<float> k(3 * 8, 0.5f), v(3 * 8), q(8, 1.0f), out(8);
    for (int i = 0; i < 24; ++i) v[i] = static_cast<float>(i);
    AttentionArgs a;
    a.tokens = 1, a.heads = 1, a.kv_heads = 1, a.head_dim = 8, a.scale = 0.3f;
    a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = out.data(), a.ldq = 8, a.ldo = 8,
    a.kv_stride = 24;
    kernel->run(a, pool);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i], static_cast<float>(i)) << kernel->name;
    a.start = 2;
    kernel->run(a, pool);
    for (int i = 0; i < 8; ++i) EXPECT_NEAR(out[i], static_cast<float>(i + 8), 1e-5) << kernel->name;
    a.window = 2;
    kernel->run(a, pool);
    for (int i = 0; i < 8; ++i) EXPECT_NEAR(out[i], static_cast<float>(i + 12), 1e-5) << kernel->name;
  }
}

}  // namespace
}  // namespace roundel
