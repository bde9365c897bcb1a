// Tokens drawn on a GPU against the CPU's sampler, from the same logits.
#include <cmath>

#include "base/rng.h"
#include "engine/sampler.h"
#include "tests/cuda/gpu.h"

namespace roundel {
namespace {

enum class Logits { kUsual, kFlat, kTies, kExtreme };

std::vector<float> make_logits(Logits kind, int64_t vocab, uint64_t seed) {
  std::vector<float> x(static_cast<size_t>(vocab));
  for (size_t i = 0; i < x.size(); ++i) {
    double sum = 0;  // about normal
    for (uint64_t j = 0; j < 6; ++j) sum += random_unit(seed, 6 * i + j) - 0.5;
    x[i] = static_cast<float>(4 * sum);
    if (kind == Logits::kFlat) x[i] = 0.25f;
    if (kind == Logits::kTies) x[i] = static_cast<float>(std::floor(x[i]));
  }
  if (kind == Logits::kExtreme) {
    x[1] = -INFINITY, x[2] = -0.0f, x[3] = 0.0f;
    x.back() = 30;
    x[x.size() / 2] = 29.5f;
  }
  return x;
}

struct Drawing {
  Drawing(int64_t rows_wanted, int64_t vocab_wanted) : rows(rows_wanted), vocab(vocab_wanted) {}

  // `steps` tokens of each row from the same logits on the GPU.
  std::vector<int32_t> run(const std::vector<float>& logits, const std::vector<DrawRow>& draw, int64_t steps,
                           const std::vector<uint32_t>& seen) const {
    const std::vector<TokenInfo> info(static_cast<size_t>(rows));
    const DeviceBuffer dinfo = to_gpu(info), step = to_gpu(std::vector<int32_t>(1, 0)), ddraw = to_gpu(draw);
    const DeviceBuffer ids = poisoned(static_cast<size_t>(steps * rows) * 4), dseen = to_gpu(seen);
    const size_t counted = static_cast<size_t>(rows) + 1;
    const DeviceBuffer counters = to_gpu(std::vector<uint32_t>(counted, 0));
    const DeviceBuffer weights = poisoned(static_cast<size_t>(rows * vocab) * 8);
    DrawArgs a;
    a.next.rows = rows, a.next.vocab = a.next.ldl = vocab, a.next.info = dinfo.as<TokenInfo>();
    a.next.step = step.as<int32_t>(), a.next.ids = ids.as<int32_t>(), a.next.steps = steps;
    a.next.counters = counters.as<uint32_t>();
    a.draw = ddraw.as<DrawRow>(), a.weights = weights.as<uint64_t>(), a.seen = dseen.as<uint32_t>();
    for (int64_t s = 0; s < steps; ++s) {
      const DeviceBuffer dlogits = to_gpu(logits);
      a.logits = dlogits.as<float>(), a.next.logits = a.logits;
      device_ops(gpu()->info()).draw(a, gpu()->stream());
      gpu()->synchronize();
    }
    for (const uint32_t c : from_gpu<uint32_t>(counters, counted)) EXPECT_EQ(c, 0u);
    const auto after = from_gpu<TokenInfo>(dinfo, info.size());
    auto picked = from_gpu<int32_t>(ids, static_cast<size_t>(steps * rows));
    for (size_t r = 0; r < after.size(); ++r) {
      EXPECT_EQ(after[r].id, picked[picked.size() - after.size() + r]);
      EXPECT_EQ(after[r].position, steps);
    }
    return picked;
  }

  int64_t rows, vocab;
};

std::vector<SamplingParams> ways() {
  return {{.temperature = 1, .seed = 1},
          {.temperature = 0.7, .top_p = 0.9, .seed = 2},
          {.temperature = 1.3, .top_k = 40, .seed = 3},
          {.temperature = 1, .top_p = 0.5, .top_k = 200, .seed = 4},
          {.temperature = 1.5, .min_p = 0.02, .seed = 5},
          {.temperature = 0.8, .top_p = 0.95, .top_k = 50, .min_p = 0.05, .seed = 6},
          {.temperature = 100, .seed = 7},
          {.temperature = 1e-3, .seed = 8},
          {.temperature = 1, .top_p = 0, .seed = 9},
          {.temperature = 1, .top_k = 1, .seed = 10},
          {.temperature = 0, .seed = 11},
          {.temperature = 0, .repetition_penalty = 1.3, .seed = 12},
          {.temperature = 1, .repetition_penalty = 1.2, .seed = 13}};
}

void compare(Logits kind, int64_t vocab, int64_t rows, int64_t steps) {
  const Drawing drawing(rows, vocab);
  std::vector<float> logits;
  std::vector<DrawRow> draw;
  std::vector<std::vector<int32_t>> history;
  const size_t words = static_cast<size_t>(vocab + 31) / 32;
  std::vector<uint32_t> seen(static_cast<size_t>(rows) * words);
  const auto all = ways();
  for (int64_t r = 0; r < rows; ++r) {
    const auto row = make_logits(kind, vocab, static_cast<uint64_t>(r + 20));
    logits.insert(logits.end(), row.begin(), row.end());
    draw.push_back(draw_row(all[static_cast<size_t>(r) % all.size()], 5));
    history.push_back({0, static_cast<int32_t>(vocab / 2), static_cast<int32_t>(vocab - 1)});
    for (const int32_t id : history.back())
      seen[static_cast<size_t>(r) * words + static_cast<size_t>(id / 32)] |= 1u << (id % 32);
  }
  const auto got = drawing.run(logits, draw, steps, seen);
  for (int64_t s = 0; s < steps; ++s)
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<float> row(logits.begin() + r * vocab, logits.begin() + (r + 1) * vocab);
      auto& past = history[static_cast<size_t>(r)];
      const int32_t want =
          sample(row, all[static_cast<size_t>(r) % all.size()], past, static_cast<uint64_t>(5 + s));
      ASSERT_EQ(got[static_cast<size_t>(s * rows + r)], want)
          << "logits " << static_cast<int>(kind) << " vocab " << vocab << " row " << r << " step " << s;
      past.push_back(want);
    }
}

// So many rows that none is shared by a cluster of blocks. racecheck does not come to an end with clusters.
TEST(DeviceDraw, RowsOfOneBlockEach) {
  NEEDS_GPU();
  compare(Logits::kUsual, 300, 135, 1);
  compare(Logits::kTies, 300, 135, 1);
}

TEST(DeviceDraw, TokensAreThoseOfTheSampler) {
  NEEDS_GPU();
  for (const Logits kind : {Logits::kUsual, Logits::kFlat, Logits::kTies, Logits::kExtreme}) {
    short_run() ? compare(kind, 500, 3, 1) : compare(kind, 1000, 13, 20);
    if (!short_run()) compare(kind, 49152, 26, 4);
  }
  if (short_run()) return;
  compare(Logits::kUsual, 128256, 64, 2);
  compare(Logits::kUsual, 128256, 1, 5);
  compare(Logits::kUsual, 262144, 13, 3);
  compare(Logits::kUsual, 17, 13, 20);
}

}  // namespace
}  // namespace roundel
