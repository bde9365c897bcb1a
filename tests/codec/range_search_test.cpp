// The weight observer memoryless_mse: scales and zero points of llmcompressor 0.14.0.1 (its _grid_search_mse, and
// calculate_qparams of compressed-tensors 0.20.1) for the same weights.
#include "codec/range_search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/thread_pool.h"
#include "codec/encoder.h"
#include "tensor/tensor.h"

namespace roundel {
namespace {

constexpr int64_t kRows = 4, kCols = 64;

std::vector<uint8_t> weights() {
  std::vector<float> w;
  uint32_t x = 12345;
  for (int64_t i = 0; i < kRows * kCols; ++i) {
    x = (x * 1103515245u + 12345u) & 0x7fffffffu;
    const float v = static_cast<float>(static_cast<int32_t>((x >> 8) % 2001) - 1000) / 4096.0f;
    w.push_back(v * v * v * 20.0f);
  }
  std::vector<uint8_t> bytes(w.size() * 2);
  narrow_from_float(DType::kBF16, w.data(), bytes.data(), w.size());
  return bytes;
}

QuantizedRows encode(QuantArgs args) {
  args.observer = "memoryless_mse";
  ThreadPool pool(2);
  WeightEncoder encoder(args, kRows, kCols, DType::kBF16, "m");
  for (; encoder.wants_pass(); encoder.end_pass()) encoder.observe(weights().data(), 0, kRows, pool);
  QuantizedRows out;
  encoder.encode(weights().data(), 0, kRows, &out, pool);
  return out;
}

TEST(RangeSearch, GroupsOfInt4) {
  const QuantizedRows out = encode({.num_bits = 4, .strategy = Strategy::kGroup, .group_size = 32});
  EXPECT_EQ(out.scales,
            (std::vector<float>{0.03515625f, 0.03515625f, 0.03369140625f, 0.033447265625f, 0.028076171875f,
                                0.029541015625f, 0.0361328125f, 0.033447265625f}));
}

TEST(RangeSearch, AsymmetricGroupsOfInt4) {
  const QuantizedRows out =
      encode({.num_bits = 4, .symmetric = false, .strategy = Strategy::kGroup, .group_size = 32});
  EXPECT_EQ(out.scales,
            (std::vector<float>{0.031494140625f, 0.03515625f, 0.033447265625f, 0.033447265625f,
                                0.027099609375f, 0.0277099609375f, 0.034423828125f, 0.0286865234375f}));
  EXPECT_EQ(out.zero_points, (std::vector<int8_t>{1, 0, 0, 0, 1, -1, 0, 1}));
}

TEST(RangeSearch, ChannelsOfInt8AndFloat8) {
  EXPECT_EQ(
      encode({.strategy = Strategy::kChannel}).scales,
      (std::vector<float>{0.0022735595703125f, 0.00213623046875f, 0.00188446044921875f, 0.002227783203125f}));
  EXPECT_EQ(encode({.type = NumberType::kFloat, .strategy = Strategy::kChannel}).scales,
            (std::vector<float>{0.000640869140625f, 0.000598907470703125f, 0.000522613525390625f,
                                0.000614166259765625f}));
}

TEST(RangeSearch, OneScaleOfTheTensor) {
  const auto scale = [](const QuantArgs& args) { return encode(args).scales; };
  EXPECT_EQ(scale({.strategy = Strategy::kTensor}), std::vector<float>(kRows, 0.0022735595703125f));
  EXPECT_EQ(scale({.num_bits = 4, .strategy = Strategy::kTensor}),
            std::vector<float>(kRows, 0.034423828125f));
  EXPECT_EQ(scale({.type = NumberType::kFloat, .strategy = Strategy::kTensor}),
            std::vector<float>(kRows, 0.000644683837890625f));
}

TEST(RangeSearch, Blocks) {
  QuantArgs args{.num_bits = 4, .strategy = Strategy::kBlock};
  args.block_rows = 2;
  args.block_cols = 32;
  EXPECT_EQ(encode(args).scales,
            (std::vector<float>{0.033935546875f, 0.03759765625f, 0.033935546875f, 0.03759765625f,
                                0.03466796875f, 0.032470703125f, 0.03466796875f, 0.032470703125f}));
  args.type = NumberType::kFloat;
  args.num_bits = 8;
  EXPECT_EQ(encode(args).scales,
            (std::vector<float>{0.00061798095703125f, 0.00060272216796875f, 0.00061798095703125f,
                                0.00060272216796875f, 0.00063323974609375f, 0.000606536865234375f,
                                0.00063323974609375f, 0.000606536865234375f}));
}

// Blocks that a chunk of 128 rows may cut take the way of one scale for a tensor.
TEST(RangeSearch, BlocksThatChunksCutAndOneBlockAreAlike) {
  QuantArgs args{.num_bits = 4, .strategy = Strategy::kBlock};
  args.block_rows = 3;
  args.block_cols = 1000;
  const std::vector<float> scales = encode(args).scales;
  EXPECT_EQ(scales[0], scales[2]);
  args.block_rows = 1000;
  EXPECT_EQ(encode(args).scales, std::vector<float>(kRows, 0.034423828125f));
}

TEST(RangeSearch, OneStepIsTheRangeItself) {
  const QuantArgs plain{.num_bits = 4, .strategy = Strategy::kGroup, .group_size = 32};
  QuantArgs searched = plain;
  searched.observer_kwargs = R"({"maxshrink": 0.01})";
  ThreadPool pool(1);
  WeightEncoder encoder(plain, kRows, kCols, DType::kBF16, "m");
  QuantizedRows out;
  encoder.encode(weights().data(), 0, kRows, &out, pool);
  EXPECT_EQ(encode(searched).scales, out.scales);
}

TEST(RangeSearch, RefusesWhatItCannotDo) {
  EXPECT_THROW(encode({.strategy = Strategy::kChannel, .observer_kwargs = R"({"norm": "two"})"}), Error);
}

}  // namespace
}  // namespace roundel
