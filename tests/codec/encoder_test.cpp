#include "codec/encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/numeric.h"
#include "tests/codec/codec_test_util.h"

namespace roundel {
namespace {

constexpr DType kSources[] = {DType::kBF16, DType::kF16, DType::kF32};
const float kInf = std::numeric_limits<float>::infinity();

std::vector<uint8_t> narrow(DType dtype, const std::vector<float>& x) {
  std::vector<uint8_t> bytes(x.size() * dtype_size(dtype));
  narrow_from_float(dtype, x.data(), bytes.data(), x.size());
  return bytes;
}

// Sums of a few integers of a linear congruential sequence, scaled: every row has its own size.
std::vector<float> weights(int64_t rows, int64_t cols) {
  std::vector<float> x(static_cast<size_t>(rows * cols));
  uint32_t state = 12345;
  for (size_t i = 0; i < x.size(); ++i) {
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
      state = state * 1664525u + 1013904223u;
      sum += static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
    }
    x[i] = sum * 0.05f * static_cast<float>(1 + static_cast<int64_t>(i) / cols % 7);
  }
  return x;
}

QuantArgs arguments(Strategy strategy, int bits, bool symmetric) {
  QuantArgs args;
  args.num_bits = bits, args.symmetric = symmetric, args.strategy = strategy;
  if (strategy == Strategy::kGroup) args.group_size = 32;
  if (strategy == Strategy::kBlock) args.block_rows = 48, args.block_cols = 40;
  return args;
}

bool same(const QuantizedRows& a, const QuantizedRows& b) {
  return a.codes == b.codes && a.scales == b.scales && a.zero_points == b.zero_points && a.groups == b.groups;
}

TEST(Qparams, SymmetricRangeIsDividedByHalfTheSteps) {
  const QuantArgs int8 = arguments(Strategy::kChannel, 8, true);
  EXPECT_EQ(compute_qparams(int8, DType::kF32, -3.0f, 1.0f).scale, 3.0f / 127.5f);
  EXPECT_EQ(compute_qparams(int8, DType::kBF16, -127.5f, 127.5f).scale, 1.0f);
  const QuantArgs int4 = arguments(Strategy::kChannel, 4, true);
  EXPECT_EQ(compute_qparams(int4, DType::kF32, 0.0f, 3.0f).scale, 3.0f / 7.5f);
  QuantArgs fp8 = arguments(Strategy::kChannel, 8, true);
  fp8.type = NumberType::kFloat;
  EXPECT_EQ(compute_qparams(fp8, DType::kF32, 0.0f, 3.0f).scale, 3.0f / 448.0f);
}

// What compressed-tensors 0.20.1 gives for zeros: eps of the dtype, zero point 0.
TEST(Qparams, ZeroRangeGivesEpsilon) {
  const std::pair<DType, float> expected[] = {
      {DType::kBF16, 0x1p-7f}, {DType::kF16, 0x1p-10f}, {DType::kF32, 0x1p-23f}};
  for (const auto& [dtype, epsilon] : expected) {
    for (const bool symmetric : {true, false}) {
      for (const float zero : {0.0f, -0.0f}) {
        const Qparams q = compute_qparams(arguments(Strategy::kGroup, 4, symmetric), dtype, zero, 0.0f);
        EXPECT_EQ(q.scale, epsilon);
        EXPECT_EQ(q.zero_point, 0);
      }
    }
  }
}

TEST(Qparams, ScaleIsAlwaysFiniteAndPositive) {
  const float ends[] = {0.0f,
                        0x1p-149f,
                        1e-38f,
                        1e-30f,
                        5.96e-8f,
                        1e-6f,
                        0.1f,
                        65504.0f,
                        1e30f,
                        3.38e38f,
                        std::numeric_limits<float>::max()};
  for (const DType dtype : kSources) {
    const float most = dtype == DType::kF16 ? 65504.0f : 3.3895314e38f;
    for (int bits = 2; bits <= 8; ++bits) {
      for (const bool symmetric : {true, false}) {
        for (const float lo : ends) {
          for (const float hi : ends) {
            const float low = -round_to(dtype, std::min(lo, most)),
                        high = round_to(dtype, std::min(hi, most));
            const Qparams q =
                compute_qparams(arguments(Strategy::kChannel, bits, symmetric), dtype, low, high);
            ASSERT_TRUE(std::isfinite(q.scale) && q.scale > 0)
                << low << " " << high << " " << bits << " bits";
            ASSERT_EQ(q.scale, round_to(dtype, q.scale));
            ASSERT_GE(q.zero_point, -(1 << (bits - 1)));
            ASSERT_LT(q.zero_point, 1 << (bits - 1));
          }
        }
      }
    }
  }
}

TEST(Encoder, FullRangeOfCodesIsUsed) {
  ThreadPool pool(1);
  const std::vector<uint8_t> x = narrow(DType::kBF16, {127.5f, -127.5f, 63.75f, 0.0f});
  const QuantizedRows rows =
      encode_whole(arguments(Strategy::kChannel, 8, true), DType::kBF16, x, 1, 4, pool);
  EXPECT_EQ(rows.codes, (std::vector<int8_t>{127, -128, 64, 0}));
  EXPECT_EQ(rows.scales, std::vector<float>{1.0f});
}

TEST(Encoder, ResultsDoNotDependOnThreadsOrChunks) {
  constexpr int64_t kRows = 300, kCols = 100;
  const std::vector<uint8_t> x = narrow(DType::kBF16, weights(kRows, kCols));
  ThreadPool one(1), three(3);
  for (const Strategy strategy :
       {Strategy::kTensor, Strategy::kChannel, Strategy::kGroup, Strategy::kBlock}) {
    const QuantArgs args = arguments(strategy, 4, false);
    WeightEncoder whole(args, kRows, kCols, DType::kBF16, "m"), parts(args, kRows, kCols, DType::kBF16, "m");
    whole.measure_error(true);
    parts.measure_error(true);
    QuantizedRows a, b;
    encode_all(whole, x, kRows, 384, one, [&](const QuantizedRows& rows) { a = rows; });
    encode_all(parts, x, kRows, 128, three, [&](const QuantizedRows& rows) {
      EXPECT_EQ(rows.row0, static_cast<int64_t>(b.codes.size()) / kCols);
      b.groups = rows.groups;
      b.codes.insert(b.codes.end(), rows.codes.begin(), rows.codes.end());
      b.scales.insert(b.scales.end(), rows.scales.begin(), rows.scales.end());
      b.zero_points.insert(b.zero_points.end(), rows.zero_points.begin(), rows.zero_points.end());
    });
    EXPECT_TRUE(same(a, b)) << strategy_name(strategy);
    EXPECT_EQ(whole.error_sum(), parts.error_sum()) << strategy_name(strategy);
    EXPECT_EQ(whole.weight_sum(), parts.weight_sum());
  }
}

// Blocks of rows that chunks of 128 cut need a first pass; the scale of each is that of its own range.
TEST(Encoder, BlocksHaveTheScaleOfTheirRange) {
  ThreadPool pool(2);
  constexpr int64_t kRows = 300, kCols = 100;
  const std::vector<float> x = weights(kRows, kCols);
  for (const int64_t block_rows : {1, 32, 48, 128, 200, 1000}) {
    QuantArgs args = arguments(Strategy::kBlock, 8, true);
    args.block_rows = block_rows;
    WeightEncoder encoder(args, kRows, kCols, DType::kF32, "m");
    EXPECT_EQ(encoder.wants_pass(), 128 % block_rows != 0);
    int64_t seen = 0;
    encode_all(encoder, narrow(DType::kF32, x), kRows, kChunkUnit, pool, [&](const QuantizedRows& rows) {
      ASSERT_EQ(rows.groups, 3);
      for (int64_t r = rows.row0; r < rows.row0 + rows.rows; ++r, ++seen) {
        for (int64_t g = 0; g < 3; ++g) {
          float most = 0;
          const int64_t top = r / block_rows * block_rows;
          for (int64_t i = top; i < std::min(kRows, top + block_rows); ++i) {
            for (int64_t c = g * 40; c < std::min(kCols, g * 40 + 40); ++c) {
              most = std::max(most, std::abs(x[static_cast<size_t>(i * kCols + c)]));
            }
          }
          ASSERT_EQ(rows.scales[static_cast<size_t>((r - rows.row0) * 3 + g)], most / 127.5f)
              << r << " " << g;
        }
      }
    });
    EXPECT_EQ(seen, kRows);
  }
}

TEST(Encoder, LastGroupMayBeShorter) {
  ThreadPool pool(1);
  const std::vector<float> x = weights(2, 72);
  const QuantArgs args = arguments(Strategy::kGroup, 4, true);  // groups of 32: 32, 32, 8
  const QuantizedRows rows = encode_whole(args, DType::kF32, narrow(DType::kF32, x), 2, 72, pool);
  ASSERT_EQ(rows.groups, 3);
  float most = 0;
  for (size_t c = 64; c < 72; ++c) most = std::max(most, std::abs(x[c]));
  EXPECT_EQ(rows.scales[2], most / 7.5f);
}

TEST(Encoder, ErrorIsThatOfTheDequantizedWeights) {
  ThreadPool pool(2);
  constexpr int64_t kRows = 40, kCols = 64;
  for (const DType dtype : kSources) {
    const QuantArgs args = arguments(Strategy::kGroup, 4, false);
    const std::vector<uint8_t> bytes = narrow(dtype, weights(kRows, kCols));
    std::vector<float> source(kRows * kCols), values(source.size());
    widen_to_float(dtype, bytes.data(), source.data(), source.size());
    WeightEncoder encoder(args, kRows, kCols, dtype, "m");
    encoder.measure_error(true);
    encode_all(encoder, bytes, kRows, kChunkUnit, pool,
               [&](const QuantizedRows& rows) { dequantize(args, dtype, rows, values.data()); });
    double error = 0, sum = 0;
    for (size_t i = 0; i < source.size(); ++i) {
      error += std::pow(static_cast<double>(source[i]) - values[i], 2);
      sum += std::pow(static_cast<double>(source[i]), 2);
    }
    EXPECT_NEAR(encoder.error_sum(), error, 1e-9 * error);
    EXPECT_NEAR(encoder.weight_sum(), sum, 1e-9 * sum);
    EXPECT_LT(error, 0.01 * sum);  // 4 bits in groups of 32: about 0.4 %
    EXPECT_GT(error, 0.001 * sum);
  }
}

TEST(Encoder, NotFiniteIsAnErrorWithCountAndPlace) {
  ThreadPool pool(2);
  for (const Strategy strategy :
       {Strategy::kTensor, Strategy::kChannel, Strategy::kGroup, Strategy::kBlock}) {
    for (const DType dtype : kSources) {
      std::vector<float> x = weights(200, 100);
      x[150 * 100 + 77] = kInf;
      x[150 * 100 + 40] = std::nanf("");
      x[199 * 100 + 99] = -kInf;
      const QuantArgs args = arguments(strategy, 8, true);
      try {
        encode_whole(args, dtype, narrow(dtype, x), 200, 100, pool);
        ADD_FAILURE() << "no error for " << strategy_name(strategy);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::kInvalid);
        const std::string text = e.what();
        EXPECT_NE(text.find("model.layers.0.mlp.up_proj.weight: 3 of"), std::string::npos) << text;
        EXPECT_NE(text.find("[150, 40]"), std::string::npos) << text;
      }
    }
  }
}

TEST(Encoder, NotFiniteCanBeAllowed) {
  ThreadPool pool(1);
  for (const Strategy strategy : {Strategy::kTensor, Strategy::kChannel}) {
    const std::vector<float> x = {1.0f, std::nanf(""), kInf, -kInf, -0.5f, 0.25f, 0.0f, 0.125f};
    const QuantArgs args = arguments(strategy, 8, true);
    WeightEncoder encoder(args, 1, 8, DType::kBF16, "m", true);
    encoder.measure_error(true);
    encode_all(encoder, narrow(DType::kBF16, x), 1, kChunkUnit, pool, [&](const QuantizedRows& rows) {
      EXPECT_EQ(rows.scales[0], round_bf16(1.0f / 127.5f));
      EXPECT_EQ(rows.codes[1], 0);
      EXPECT_EQ(rows.codes[2], 127);
      EXPECT_EQ(rows.codes[3], -128);
    });
    EXPECT_EQ(encoder.not_finite(), 3);
    EXPECT_TRUE(std::isfinite(encoder.error_sum()));
  }
}

TEST(Encoder, RefusesWhatItCannotEncode) {
  const auto refused = [](const QuantArgs& args, DType dtype, const char* text) {
    try {
      WeightEncoder(args, 8, 8, dtype, "m");
      ADD_FAILURE() << "accepted " << describe(args);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  refused(arguments(Strategy::kChannel, 8, true), DType::kI8, "I8");
  refused(arguments(Strategy::kToken, 8, true), DType::kBF16, "token");
  refused(arguments(Strategy::kChannel, 9, true), DType::kBF16, "int9");
  QuantArgs fp4 = arguments(Strategy::kChannel, 4, true);
  fp4.type = NumberType::kFloat;
  refused(fp4, DType::kBF16, "float4");
}

TEST(QuantizedRows, ChunksAreWholeUnits) {
  EXPECT_EQ(chunk_rows(4096, 2), 512);
  EXPECT_EQ(chunk_rows(100000000, 4), kChunkUnit);
  EXPECT_EQ(chunk_rows(0, 2) % kChunkUnit, 0);
  EXPECT_EQ(chunk_rows(3000, 2) % kChunkUnit, 0);
}

}  // namespace
}  // namespace roundel
