// Rounding on a GPU against the encoder of the CPU: the same codes, scales and zero points, all of them.
#include <cmath>
#include <cstring>

#include "base/numeric.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "codec/encoder.h"
#include "scheme/scheme_text.h"
#include "tensor/tensor.h"
#include "tests/cuda/gpu.h"

namespace roundel {
namespace {

// Weights of all sizes, ties, groups of zeros, one of them tiny or huge.
std::vector<uint8_t> make_source(DType dtype, int64_t rows, int64_t cols) {
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * cols) * dtype_size(dtype));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const auto i = static_cast<uint64_t>(r * cols + c);
      double x = (random_unit(1, i) + random_unit(2, i) - 1) * std::pow(10.0, -2.0 * random_unit(3, i / 32));
      if (r % 7 == 1) x = std::round(x * 16) / 16;               // ties
      if (r % 7 == 2 && c / 32 % 3 == 0) x = 0;                  // groups of zeros
      if (r % 7 == 3) x *= dtype == DType::kF16 ? 1e-6 : 1e-38;  // subnormal numbers
      if (r % 7 == 4) x *= dtype == DType::kF16 ? 6e4 : 3e38;    // hi - lo overflows
      if (r % 7 == 5) x = std::fabs(x) + 3;                      // all of one sign
      const auto f = static_cast<float>(x);
      const uint16_t narrow = dtype == DType::kBF16 ? float_to_bf16(f) : float_to_f16(f);
      if (dtype == DType::kF32)
        std::memcpy(bytes.data() + 4 * i, &f, 4);
      else
        std::memcpy(bytes.data() + 2 * i, &narrow, 2);
    }
  return bytes;
}

void compare(const char* scheme, DType dtype, int64_t rows, int64_t cols) {
  const QuantArgs args = *parse_scheme_text(scheme, "test").scheme.weights;
  ASSERT_TRUE(encodes_by_groups(args, dtype)) << scheme;
  const auto source = make_source(dtype, rows, cols);
  ThreadPool pool(2);
  QuantizedRows want;
  WeightEncoder(args, rows, cols, dtype, "test").encode(source.data(), 0, rows, &want, pool);

  const size_t count = static_cast<size_t>(rows * cols), groups = want.scales.size();
  const DeviceBuffer x = to_gpu(source), codes = poisoned(count), scales = poisoned(groups * 4),
                     zeros = poisoned(groups), faults = to_gpu(std::vector<uint32_t>(1, 0));
  DeviceEncodeArgs a;
  a.rows = rows, a.cols = cols, a.group = group_width(args, cols), a.x = x.data();
  a.source = dtype == DType::kBF16  ? SourceType::kBF16
             : dtype == DType::kF16 ? SourceType::kF16
                                    : SourceType::kF32;
  a.e4m3 = args.type == NumberType::kFloat, a.symmetric = args.symmetric;
  a.qmin = static_cast<float>(args.qmin()), a.qmax = static_cast<float>(args.qmax());
  a.codes = codes.data(), a.scales = scales.as<float>();
  if (!args.symmetric) a.zero_points = zeros.as<int8_t>();
  a.not_finite = faults.as<uint32_t>();
  device_ops(gpu()->info()).encode(a, gpu()->stream());

  const std::string what = std::string(scheme) + " of " + std::string(dtype_name(dtype));
  EXPECT_EQ(from_gpu<uint32_t>(faults, 1)[0], 0u) << what;
  const auto got_scales = from_gpu<float>(scales, groups);
  for (size_t i = 0; i < groups; ++i) ASSERT_EQ(got_scales[i], want.scales[i]) << what << " group " << i;
  if (!args.symmetric) {
    EXPECT_EQ(from_gpu<int8_t>(zeros, groups), want.zero_points) << what;
  }
  const auto got = from_gpu<int8_t>(codes, count);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(got[i], want.codes[i]) << what << " weight " << i;
}

TEST(DeviceEncode, CodesAreThoseOfTheCpu) {
  NEEDS_GPU();
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    for (const char* scheme : {"W4A16:g32", "W4A16:g128", "W4A16:channel", "W4A16:g64:asym", "W8A16:channel",
                               "W8A8", "W8A16:g128:asym", "FP8_DYNAMIC", "W4A16:g32:asym"}) {
      compare(scheme, dtype, 130, 1024);
      compare(scheme, dtype, 40, 608 / 64 * 64 + 64);
    }
}

TEST(DeviceEncode, ValuesThatAreNotFiniteAreCounted) {
  NEEDS_GPU();
  std::vector<float> x(4 * 64, 1.0f);
  x[5] = NAN, x[70] = INFINITY, x[255] = -INFINITY;
  const DeviceBuffer dx = to_gpu(x), codes = poisoned(256), scales = poisoned(64),
                     faults = to_gpu(std::vector<uint32_t>(1, 0));
  DeviceEncodeArgs a;
  a.rows = 4, a.cols = 64, a.group = 32, a.source = SourceType::kF32, a.x = dx.data(), a.qmin = -8,
  a.qmax = 7;
  a.codes = codes.data(), a.scales = scales.as<float>(), a.not_finite = faults.as<uint32_t>();
  device_ops(gpu()->info()).encode(a, gpu()->stream());
  EXPECT_EQ(from_gpu<uint32_t>(faults, 1)[0], 3u);
}

// What stays with the CPU.
TEST(DeviceEncode, OnlyRowsOnTheirOwnAreTaken) {
  const auto weights = [](const char* scheme) { return *parse_scheme_text(scheme, "test").scheme.weights; };
  EXPECT_TRUE(encodes_by_groups(weights("W4A16"), DType::kBF16));
  EXPECT_FALSE(encodes_by_groups(weights("FP8_BLOCK"), DType::kBF16));
  EXPECT_FALSE(encodes_by_groups(weights("W8A8:tensor"), DType::kBF16));
  EXPECT_FALSE(encodes_by_groups(weights("W4A16"), DType::kF8E4M3));
  QuantArgs searched = weights("W4A16");
  searched.observer = "memoryless_mse";
  EXPECT_FALSE(encodes_by_groups(searched, DType::kBF16));
}

}  // namespace
}  // namespace roundel
