// GPTQ against the codes that llm-compressor wrote (tests/data/golden), and against what its formulas promise.
#include "quantize/calibration/gptq.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "codec/format.h"
#include "quantize/calibration/input_moments.h"
#include "scheme/quant_config.h"
#include "tests/codec/codec_test_util.h"
#include "tests/quantize/calibration_kit.h"

namespace roundel {
namespace {

const std::string kModule = "model.layers.0.self_attn.k_proj";

std::vector<float> dense_values(const std::string& tensor) {
  const FileTensors source(golden("dense/tiny_llama") / "model.safetensors");
  const std::vector<uint8_t> bytes = source.bytes(tensor);
  std::vector<float> values(bytes.size() / 2);
  widen_to_float(DType::kBF16, bytes.data(), values.data(), values.size());
  return values;
}

Matrix dense_matrix(const std::string& tensor, int64_t rows, int64_t cols) {
  const std::vector<float> values = dense_values(tensor);
  Matrix m(rows, cols);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) m.row(r)[c] = values[static_cast<size_t>(r * cols + c)];
  return m;
}

// The input of layer 0's k_proj as the original computes it, in BF16.
InputMoments golden_moments(ThreadPool& pool) {
  constexpr int64_t kHidden = 128;
  const std::vector<float> embedding = dense_values("model.embed_tokens.weight");
  const std::vector<float> gain = dense_values("model.layers.0.input_layernorm.weight");
  InputMoments moments(kHidden, true, false);
  for (const std::vector<int32_t>& ids : golden_samples()) {
    Activations x(static_cast<int64_t>(ids.size()), kHidden);
    for (int64_t t = 0; t < x.rows; ++t) {
      const float* e = &embedding[static_cast<size_t>(ids[static_cast<size_t>(t)]) * kHidden];
      double squares = 0;
      for (int64_t c = 0; c < kHidden; ++c) squares += static_cast<double>(e[c]) * static_cast<double>(e[c]);
      const double scale = 1 / std::sqrt(squares / kHidden + 1e-5);
      for (int64_t c = 0; c < kHidden; ++c)
        x.row(t)[c] = round_bf16(round_bf16(static_cast<float>(static_cast<double>(e[c]) * scale)) *
                                 gain[static_cast<size_t>(c)]);
    }
    moments.add(x, pool);
  }
  moments.finish(pool);
  return moments;
}

class GptqGolden : public testing::TestWithParam<const char*> {};

TEST_P(GptqGolden, GivesTheCodesOfTheOriginal) {
  ThreadPool pool(2);
  const std::filesystem::path folder = golden("layers") / GetParam();
  const auto config = read_quant_config(read_json_file(folder / "config.json"), "config.json");
  ASSERT_TRUE(config.has_value());
  const Scheme& scheme = config->groups.front().scheme;
  const FileTensors file(folder / "model.safetensors");
  StoredWeight stored{kModule, scheme, 64, 128, DType::kBF16, false};
  QuantizedRows expected;
  find_format(scheme.format, "test").load(stored, file, 0, 64, &expected);

  const Matrix w = dense_matrix(kModule + ".weight", 64, 128);
  const QuantArgs& args = *scheme.weights;
  const InputMoments moments = golden_moments(pool);
  const HessianFactor factor = factorize(moments.second(), {0.01, args.actorder == ActOrder::kStatic}, pool);
  ASSERT_FALSE(factor.failed);
  const QuantizedRows rows =
      gptq(w, args, DType::kBF16, round_to_nearest(w, args, DType::kBF16, kModule, pool), factor, 128, pool);
  EXPECT_EQ(rows.scales, expected.scales);
  // The original sums in float and in another order: a weight that lies on the edge may fall to the other side. The finer
  // the grid, the more of them do.
  int64_t different = 0;
  for (size_t i = 0; i < rows.codes.size(); ++i) {
    different += rows.codes[i] != expected.codes[i];
    EXPECT_LE(std::abs(rows.codes[i] - expected.codes[i]), 1);
  }
  EXPECT_LE(different, args.num_bits == 4 ? 2 : 80) << "of " << rows.codes.size();
}

INSTANTIATE_TEST_SUITE_P(Cases, GptqGolden,
                         testing::Values("gptq_w4a16_g32", "gptq_w4a16_g32_actorder_none", "gptq_w8a8"));

Matrix random_matrix(int64_t rows, int64_t cols, uint64_t seed) {
  Matrix m(rows, cols);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      m.row(r)[c] = static_cast<float>(random_unit(seed, static_cast<uint64_t>(r * cols + c)) * 2 - 1);
  return m;
}

// Inputs whose channels lean on each other, so that there is something to make up for.
InputMoments random_moments(int64_t cols, int64_t tokens, ThreadPool& pool) {
  InputMoments moments(cols, true, false);
  const Matrix noise = random_matrix(tokens, cols, 7);
  Activations x(tokens, cols);
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t c = 0; c < cols; ++c)
      x.row(t)[c] = noise.row(t)[c] + (c > 0 ? x.row(t)[c - 1] : 0.0f) * 0.8f;
  moments.add(x, pool);
  moments.finish(pool);
  return moments;
}

double loss(const Matrix& w, const QuantizedRows& rows, const QuantArgs& args, const InputMoments& moments,
            ThreadPool& pool) {
  Matrix d = values_of(rows, args, pool);
  for (int64_t r = 0; r < d.rows; ++r)
    for (int64_t c = 0; c < d.cols; ++c) d.row(r)[c] -= w.row(r)[c];
  return QuadraticForm(moments.second(), pool).sum(d, pool);
}

TEST(Gptq, HasLessErrorThanRounding) {
  ThreadPool pool(2);
  const Matrix w = random_matrix(48, 192, 3);
  const InputMoments moments = random_moments(192, 700, pool);
  const QuantArgs args = *w4_groups(64).weights;
  const QuantizedRows nearest = round_to_nearest(w, args, DType::kBF16, "test", pool);
  for (const bool descending : {false, true}) {
    const HessianFactor factor = factorize(moments.second(), {0.01, descending}, pool);
    const QuantizedRows rows = gptq(w, args, DType::kBF16, nearest, factor, 64, pool);
    EXPECT_LT(loss(w, rows, args, moments, pool), 0.5 * loss(w, nearest, args, moments, pool));
  }
}

TEST(Gptq, DoesNotDependOnBlocksButForRounding) {
  ThreadPool pool(2);
  const Matrix w = random_matrix(32, 128, 4);
  const InputMoments moments = random_moments(128, 500, pool);
  const QuantArgs args = *w4_groups(32).weights;
  const QuantizedRows nearest = round_to_nearest(w, args, DType::kBF16, "test", pool);
  const HessianFactor factor = factorize(moments.second(), {}, pool);
  const QuantizedRows whole = gptq(w, args, DType::kBF16, nearest, factor, 128, pool);
  const QuantizedRows parts = gptq(w, args, DType::kBF16, nearest, factor, 17, pool);
  int64_t different = 0;
  for (size_t i = 0; i < whole.codes.size(); ++i) different += whole.codes[i] != parts.codes[i];
  EXPECT_LT(different, 20) << "of " << whole.codes.size();
}

TEST(Gptq, DoesNotDependOnThreads) {
  const QuantArgs args = *w4_groups(64, false).weights;
  QuantizedRows first;
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    const Matrix w = random_matrix(80, 192, 5);
    const InputMoments moments = random_moments(192, 1500, pool);
    const HessianFactor factor = factorize(moments.second(), {}, pool);
    const QuantizedRows rows =
        gptq(w, args, DType::kBF16, round_to_nearest(w, args, DType::kBF16, "test", pool), factor, 128, pool);
    if (threads == 1) first = rows;
    EXPECT_EQ(rows.codes, first.codes) << threads;
  }
}

TEST(Gptq, SetsDeadColumnsToZero) {
  ThreadPool pool(1);
  InputMoments moments(64, true, false);
  Activations x(200, 64);
  const Matrix noise = random_matrix(200, 64, 9);
  for (int64_t t = 0; t < 200; ++t)
    for (int64_t c = 0; c < 64; ++c) x.row(t)[c] = c == 5 ? 0.0f : noise.row(t)[c];
  moments.add(x, pool);
  moments.finish(pool);
  const HessianFactor factor = factorize(moments.second(), {}, pool);
  EXPECT_EQ(factor.dead_count, 1);
  const Matrix w = random_matrix(8, 64, 10);
  const QuantArgs args = *w4_groups(32).weights;
  const QuantizedRows rows =
      gptq(w, args, DType::kBF16, round_to_nearest(w, args, DType::kBF16, "test", pool), factor, 32, pool);
  for (size_t r = 0; r < 8; ++r) EXPECT_EQ(rows.codes[r * 64 + 5], 0);
}

}  // namespace
}  // namespace roundel
