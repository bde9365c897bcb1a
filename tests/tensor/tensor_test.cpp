#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace roundel {
namespace {

TEST(Tensor, SizesAreProductsAndChecked) {
  EXPECT_EQ(shape_text({64, 128}), "[64, 128]");
  EXPECT_EQ(shape_text({}), "[]");
  const TensorSpec spec{"w", DType::kBF16, {3, 5}};
  EXPECT_EQ(spec.elements(), 15u);
  EXPECT_EQ(spec.bytes(), 30u);
  EXPECT_EQ((TensorSpec{"scalar", DType::kF32, {}}).bytes(), 4u);
  EXPECT_EQ((TensorSpec{"none", DType::kF32, {0, 7}}).bytes(), 0u);
  const TensorSpec huge{"huge", DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}};
  EXPECT_THROW(huge.elements(), Error);
}

TEST(Tensor, BuffersAreAlignedAndZeroedOnDemand) {
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{4097}, size_t{5} << 20}) {
    const Buffer buffer(bytes, true);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(buffer.data()[0] | buffer.data()[bytes / 2] | buffer.data()[bytes - 1], 0);
  }
  EXPECT_TRUE(Buffer().empty());
}

// BF16 keeps 8 significand bits: of 1 + 1/256 (halfway) and 1 + 3/256 the even neighbours are 1 and 1 + 4/256.
TEST(Tensor, NarrowingRoundsHalfToEven) {
  const float values[] = {1.0f + 1.0f / 256, 1.0f + 3.0f / 256, -2.5f, 65520.0f, 1e-8f};
  uint16_t bf16[5], f16[5];
  narrow_from_float(DType::kBF16, values, bf16, 5);
  narrow_from_float(DType::kF16, values, f16, 5);
  EXPECT_EQ(bf16[0], 0x3F80);
  EXPECT_EQ(bf16[1], 0x3F82);
  EXPECT_EQ(bf16[2], 0xC020);
  EXPECT_EQ(f16[2], 0xC100);
  EXPECT_EQ(f16[3], 0x7C00);  // 65520 is halfway between the largest half, 65504, and 65536: infinity
  EXPECT_EQ(f16[4], 0x0000);  // below half of the smallest subnormal, 2^-24
  EXPECT_EQ(round_to(DType::kBF16, values[1]), 1.015625f);
  EXPECT_EQ(round_to(DType::kF32, values[1]), values[1]);
}

TEST(Tensor, WideningIsExact) {
  const uint16_t bf16[] = {0x3F80, 0xC020, 0x0001, 0xFF80}, f16[] = {0x3C00, 0x0001, 0x7BFF, 0xFC00};
  const uint8_t e4m3[] = {0x38, 0x7E, 0x01, 0xFE};
  float out[4];
  widen_to_float(DType::kBF16, bf16, out, 4);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], -2.5f);
  EXPECT_EQ(out[2], 0x1p-133f);
  EXPECT_EQ(out[3], -std::numeric_limits<float>::infinity());
  widen_to_float(DType::kF16, f16, out, 4);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], 0x1p-24f);
  EXPECT_EQ(out[2], 65504.0f);
  EXPECT_EQ(out[3], -std::numeric_limits<float>::infinity());
  widen_to_float(DType::kF8E4M3, e4m3, out, 4);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], 448.0f);
  EXPECT_EQ(out[2], 0x1p-9f);
  EXPECT_EQ(out[3], -448.0f);
}

}  // namespace
}  // namespace roundel
