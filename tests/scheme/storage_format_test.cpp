#include "scheme/storage_format.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/scheme/scheme_test_util.h"

namespace roundel {
namespace {

TEST(StorageFormat, IsInferredAsTheOriginalDoes) {
  const Json cases = fixture("formats.json");
  ASSERT_GT(cases.size(), 10u);
  for (const Json& c : cases) {
    const Scheme scheme = parse_scheme(c["scheme"], "g");
    for (const char* name : {"Linear", "Embedding", "Conv2d"})
      EXPECT_EQ(infer_stored_format(scheme, name), c[name]) << name << " " << c["scheme"];
  }
}

TEST(StorageFormat, PacksSmallIntegersWithQuantizedActivations) {
  const std::pair<const char*, const char*> expected[] = {
      {"W4A16", "pack-quantized"}, {"W8A16", "pack-quantized"},        {"W4A8", "pack-quantized"},
      {"W2A4", "pack-quantized"},  {"W4AFP8", "pack-quantized"},       {"W7A8", "pack-quantized"},
      {"W8A8", "int-quantized"},   {"FP8", "float-quantized"},         {"FP8_BLOCK", "float-quantized"},
      {"UNQUANTIZED", "dense"},    {"FP8_DYNAMIC", "float-quantized"},
  };
  for (const auto& [name, format] : expected) EXPECT_EQ(infer_format(preset(name), "Linear"), format) << name;
  const Scheme fp8_weights{.weights = preset("FP8").weights};
  EXPECT_EQ(infer_format(fp8_weights, "Linear"), "naive-quantized");
  EXPECT_EQ(infer_format(preset("W4A16"), "Embedding"), "pack-quantized");
  EXPECT_EQ(infer_format(preset("W4A16"), "Conv1d"), "dense");
}

TEST(StorageFormat, HoldsWhatFits) {
  for (const Preset& p : presets())
    EXPECT_TRUE(format_holds(infer_format(p.scheme, "Linear"), p.scheme)) << p.name;
  EXPECT_TRUE(format_holds("int-quantized", preset("W4A8")));
  EXPECT_TRUE(format_holds("naive-quantized", preset("W8A8")));
  EXPECT_FALSE(format_holds("float-quantized", preset("W8A8")));
  EXPECT_FALSE(format_holds("pack-quantized", preset("FP8")));
  EXPECT_FALSE(format_holds("int-quantized", preset("FP8")));
  EXPECT_FALSE(format_holds("dense", preset("W8A8")));
  EXPECT_FALSE(format_holds("pack-quantized", Scheme{}));
}

TEST(StorageFormat, RefusesByName) {
  for (const std::string& name : supported_formats()) EXPECT_NO_THROW(require_format(name, "f"));
  for (const char* name : {"sparse-bitmask", "sparse-24-bitmask", "marlin-24", "nvfp4-pack-quantized",
                           "mxfp4-pack-quantized", "mxfp6-pack-quantized", "mxfp8-quantized"}) {
    const std::string error = error_of([&] { require_format(name, "config.json: format"); });
    EXPECT_TRUE(contains(error, name) && contains(error, "config.json: format")) << error;
    EXPECT_TRUE(contains(error, "not supported")) << error;
  }
  const std::string error = error_of([] { require_format("zip-quantized", "f"); });
  EXPECT_TRUE(contains(error, "unknown format \"zip-quantized\"") && contains(error, "did you mean"))
      << error;
}

double bits_per_weight(const Scheme& scheme, int64_t rows = 4096, int64_t cols = 4096) {
  return stored_bits(scheme, rows, cols, DType::kBF16).total() / static_cast<double>(rows * cols);
}

Scheme with_group(const char* name, int64_t size) {
  Scheme scheme = preset(name);
  scheme.weights->group_size = size;
  if (size == 0) scheme.weights->strategy = Strategy::kChannel;
  return scheme;
}

// The figures of the format's storage arithmetic, at 4096 columns.
TEST(StoredBits, AddUp) {
  EXPECT_DOUBLE_EQ(bits_per_weight(with_group("W4A16", 32)), 4.5);
  EXPECT_DOUBLE_EQ(bits_per_weight(with_group("W4A16", 64)), 4.25);
  EXPECT_DOUBLE_EQ(bits_per_weight(preset("W4A16")), 4.125);
  EXPECT_NEAR(bits_per_weight(with_group("W4A16", 0)), 4.004, 5e-4);
  EXPECT_NEAR(bits_per_weight(preset("W4A16_ASYM")), 4.156, 5e-4);
  EXPECT_DOUBLE_EQ(bits_per_weight(preset("W8A16")), 8.125);
  EXPECT_NEAR(bits_per_weight(with_group("W8A16", 0)), 8.004, 5e-4);
  EXPECT_NEAR(bits_per_weight(preset("FP8_DYNAMIC")), 8.004, 5e-4);
  EXPECT_NEAR(bits_per_weight(preset("FP8_BLOCK")), 8.001, 5e-4);
  EXPECT_DOUBLE_EQ(bits_per_weight(preset("W3A16")), 3.125);
  EXPECT_DOUBLE_EQ(bits_per_weight(preset("W4A8")), 4.125);
  Scheme unpacked = preset("W4A8");
  unpacked.format = "int-quantized";
  EXPECT_DOUBLE_EQ(bits_per_weight(unpacked), 8.125);
  const std::map<std::string, double> floats = {{"NVFP4", 4.5}, {"MXFP4", 4.25}, {"MXFP8", 8.25}};
  for (const Preset& p : presets()) {
    if (auto it = floats.find(p.name); it != floats.end()) {
      EXPECT_DOUBLE_EQ(bits_per_weight(p.scheme), it->second);
    }
  }
  EXPECT_DOUBLE_EQ(bits_per_weight(Scheme{}), 16);
}

// A 3-row matrix of 11 columns: padding and tails by hand, from the shapes of the stored tensors.
TEST(StoredBits, CountPaddingAndTails) {
  const Scheme w4 =
      with_group("W4A16_ASYM", 8);  // words 2 a row; scales [3, 2]; zero points ceil(3*4/32) = 1 x 2 words
  const StoredBits bits = stored_bits(w4, 3, 11, DType::kF32);
  EXPECT_DOUBLE_EQ(bits.codes, 3 * 2 * 32);
  EXPECT_DOUBLE_EQ(bits.scales, 3 * 2 * 32);
  EXPECT_DOUBLE_EQ(bits.zero_points, 2 * 32);
  const StoredBits block = stored_bits(preset("FP8_BLOCK"), 130, 129, DType::kBF16);
  EXPECT_DOUBLE_EQ(block.codes, 130 * 129 * 8);
  EXPECT_DOUBLE_EQ(block.scales, 4 * 16);
  const Scheme tensor{.weights = QuantArgs{.symmetric = false}, .format = "int-quantized"};
  EXPECT_DOUBLE_EQ(stored_bits(tensor, 3, 11, DType::kF16).total(), 33 * 8 + 16 + 8);
}

}  // namespace
}  // namespace roundel
