// The encode operations: packing against the vectors of compressed-tensors, everything else against the reference, which
// tests/codec compares with the original library.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "base/numeric.h"
#include "kernels/list.h"

namespace roundel {
namespace {

const EncodeOps& reference() {
  return *encode_ops_list().back();
}

class EncodeTest : public testing::TestWithParam<const EncodeOps*> {
 protected:
  void SetUp() override {
    if (!GetParam()->supports(cpu_features()).ok) GTEST_SKIP() << GetParam()->supports(cpu_features()).reason;
  }
  const EncodeOps& ops() const { return *GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(All, EncodeTest,
                         testing::ValuesIn(encode_ops_list().begin(), encode_ops_list().end()),
                         [](const auto& test) { return std::string(test.param->name); });

struct Random {
  uint64_t state;
  uint32_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 32);
  }
  float unit() { return static_cast<float>(next() >> 8) * 0x1p-24f; }
};

constexpr SourceType kTypes[] = {SourceType::kBF16, SourceType::kF16, SourceType::kF32};

size_t bytes_of(SourceType type) {
  return type == SourceType::kF32 ? 4 : 2;
}

std::vector<uint8_t> narrow(SourceType type, const std::vector<float>& x) {
  std::vector<uint8_t> bytes(x.size() * bytes_of(type));
  for (size_t i = 0; i < x.size(); ++i) {
    const uint16_t half = type == SourceType::kBF16 ? float_to_bf16(x[i]) : float_to_f16(x[i]);
    if (type == SourceType::kF32) {
      std::memcpy(&bytes[4 * i], &x[i], 4);
    } else {
      std::memcpy(&bytes[2 * i], &half, 2);
    }
  }
  return bytes;
}

// Zeros of both signs, denormals, huge numbers, ties, and ordinary ones.
std::vector<float> odd_numbers(size_t n, uint64_t seed, bool with_not_finite) {
  Random random{seed};
  std::vector<float> x(n);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (float& v : x) {
    const uint32_t kind = random.next() % 16;
    const float sign = random.next() & 1 ? -1.0f : 1.0f;
    v = sign * (random.unit() - 0.5f);
    if (kind == 0) v = sign * 0.0f;
    if (kind == 1) v = sign * std::ldexp(1.0f + random.unit(), -130 - static_cast<int>(random.next() % 15));
    if (kind == 2) v = sign * std::ldexp(1.0f + random.unit(), 120 + static_cast<int>(random.next() % 7));
    if (kind == 3) v = sign * (static_cast<float>(random.next() % 256) + 0.5f);
    if (kind == 4) v = sign * std::ldexp(1.0f + random.unit(), -20 + static_cast<int>(random.next() % 40));
    if (kind == 5 && with_not_finite) v = random.next() % 3 ? sign * inf : nan;
  }
  return x;
}

std::vector<uint32_t> pack(const EncodeOps& ops, const std::vector<int8_t>& codes, int bits) {
  const size_t words = (codes.size() * static_cast<size_t>(bits) + 31) / 32;
  std::vector<uint32_t> packed(words + 1, 0xdeadbeef);
  ops.pack_bits(codes.data(), static_cast<int64_t>(codes.size()), bits, packed.data());
  EXPECT_EQ(packed.back(), 0xdeadbeef) << "wrote beyond the last word, " << bits << " bits";
  packed.pop_back();
  return packed;
}

std::vector<int8_t> unpack(const EncodeOps& ops, const std::vector<uint32_t>& words, size_t n, int bits) {
  std::vector<int8_t> codes(n + 1, 77);
  ops.unpack_bits(words.data(), static_cast<int64_t>(n), bits, codes.data());
  EXPECT_EQ(codes.back(), 77) << "wrote beyond the last code, " << bits << " bits";
  codes.pop_back();
  return codes;
}

std::vector<int8_t> ramp(int step, int modulus) {
  std::vector<int8_t> codes;
  for (int i = 0; i < 32; ++i) codes.push_back(static_cast<int8_t>(step * i % modulus - modulus / 2));
  return codes;
}

// Words that compressed-tensors 0.20.1 writes for these values.
TEST_P(EncodeTest, PacksTheVectorsOfCompressedTensors) {
  using Codes = std::vector<int8_t>;
  using Words = std::vector<uint32_t>;
  const struct {
    int bits;
    Codes codes;
    Words words;
  } cases[] = {
      {4, {-8, -7, 0, 1, 7, 3, -1, 2}, {0xa7bf9810}},
      {4, {-8, -7, 0, 1, 7, 3, -1, 2, 5, -6, 0}, {0xa7bf9810, 0x0000082d}},
      {8, {1, 2}, {0x00008281}},
      {8, {-128, -1, 0, 127, 5}, {0xff807f00, 0x00000085}},
      {2, {-2, -1, 0, 1, -2, -1, 0, 1, -2, -1, 0, 1, -2, -1, 0, 1}, {0xe4e4e4e4}},
      {3, ramp(1, 8), {0x88fac688, 0xc688fac6, 0xfac688fa}},
      {3, {-4, -3, -2, -1, 0, 1, 2, 3, 0, 1, 2}, {0xacfac688, 0x00000001}},
      {5, ramp(7, 32), {0x87cab8e0, 0x469bf88a, 0xfaf048b7, 0xe80ea6c2, 0xcc964ed9}},
      {6, ramp(11, 64), {0xec8562c0, 0xe8d8342d, 0x95a3c4e6, 0xdc446ef0, 0xe4c8f729, 0x54aff4a5}},
      {7,
       ramp(19, 128),
       {0xc7298980, 0x980bcafc, 0xbe4a2f95, 0xa1b03a2b, 0x887fcd35, 0x3badc86a, 0x9ae93940}},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(pack(ops(), c.codes, c.bits), c.words) << c.bits << " bits";
    EXPECT_EQ(unpack(ops(), c.words, c.codes.size(), c.bits), c.codes) << c.bits << " bits";
  }
}

TEST_P(EncodeTest, PacksEveryLengthLikeTheReference) {
  Random random{1};
  for (int bits = 1; bits <= 8; ++bits) {
    for (size_t n = 0; n <= 300; ++n) {
      std::vector<int8_t> codes(n);
      for (int8_t& q : codes) {
        q = static_cast<int8_t>(static_cast<int>(random.next() % (1u << bits)) - (1 << (bits - 1)));
      }
      const std::vector<uint32_t> words = pack(ops(), codes, bits);
      ASSERT_EQ(words, pack(reference(), codes, bits)) << bits << " bits, " << n << " codes";
      ASSERT_EQ(unpack(ops(), words, n, bits), codes) << bits << " bits, " << n << " codes";
      const size_t used = n * static_cast<size_t>(bits) % 32;
      const uint32_t padding = used ? words.back() >> used : 0;
      ASSERT_EQ(padding, 0u) << bits << " bits, " << n << " codes";
    }
  }
}

// What a file holds beyond the last code does not matter.
TEST_P(EncodeTest, UnpackIgnoresPaddingBits) {
  for (int bits = 1; bits <= 8; ++bits) {
    for (const size_t n : {1u, 11u, 31u, 33u, 63u, 65u}) {
      std::vector<uint32_t> words((n * static_cast<size_t>(bits) + 31) / 32, 0xffffffffu);
      const auto top = static_cast<int8_t>((1 << (bits - 1)) - 1);
      EXPECT_EQ(unpack(ops(), words, n, bits), std::vector<int8_t>(n, top)) << bits << " bits, " << n;
    }
  }
}

TEST_P(EncodeTest, RangeHoldsZeroAndSkipsNaN) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1.0f, -2.0f, std::nanf(""), 3.0f, inf, -inf};
  for (const SourceType type : kTypes) {
    const RangeResult r = ops().range(type, narrow(type, x).data(), 6);
    EXPECT_EQ(r.lo, -2.0f);
    EXPECT_EQ(r.hi, 3.0f);
    EXPECT_EQ(r.not_finite, 3);
    EXPECT_EQ(r.first_not_finite, 2);
    const RangeResult positive = ops().range(type, narrow(type, {0.5f, 0.25f}).data(), 2);
    EXPECT_EQ(positive.lo, 0.0f);
    EXPECT_EQ(positive.hi, 0.5f);
    EXPECT_EQ(positive.first_not_finite, -1);
  }
}

TEST_P(EncodeTest, RangeEqualsReference) {
  for (const SourceType type : kTypes) {
    for (size_t n = 0; n <= 200; ++n) {
      // F16 cannot hold the huge numbers: they are infinite there.
      const std::vector<uint8_t> x = narrow(type, odd_numbers(n, n + 7, n % 4 == 3));
      const RangeResult a = ops().range(type, x.data(), static_cast<int64_t>(n));
      const RangeResult b = reference().range(type, x.data(), static_cast<int64_t>(n));
      ASSERT_EQ(a.lo, b.lo) << n;
      ASSERT_EQ(a.hi, b.hi) << n;
      ASSERT_EQ(a.not_finite, b.not_finite) << n;
      ASSERT_EQ(a.first_not_finite, b.first_not_finite) << n;
    }
  }
}

TEST_P(EncodeTest, CodesEqualReference) {
  const float scales[] = {1.0f,      0.0078125f, 0.5f,        3.0f,       0x1.04p-7f,
                          0x1p-133f, 0x1.8p-95f, 0x1.fep126f, 0x1.54p-24f};
  const struct {
    float zero_point, qmin, qmax;
  } ranges[] = {{0, -128, 127}, {0, -8, 7}, {-37, -128, 127}, {5, -8, 7}, {1, -2, 1}, {-128, -128, 127}};
  for (const SourceType type : kTypes) {
    for (const size_t n : {1u, 15u, 16u, 31u, 32u, 33u, 64u, 128u, 250u}) {
      const std::vector<uint8_t> x = narrow(type, odd_numbers(n, n, true));
      const auto count = static_cast<int64_t>(n);
      for (const float scale : scales) {
        for (const auto& r : ranges) {
          std::vector<int8_t> a(n + 1, 99), b(n + 1, 99);
          ops().encode_int(type, x.data(), count, scale, r.zero_point, r.qmin, r.qmax, a.data());
          reference().encode_int(type, x.data(), count, scale, r.zero_point, r.qmin, r.qmax, b.data());
          ASSERT_EQ(a, b) << "type " << static_cast<int>(type) << " n " << n << " scale " << scale << " zero "
                          << r.zero_point;
        }
        std::vector<uint8_t> a(n + 1, 99), b(n + 1, 99);
        ops().encode_e4m3(type, x.data(), count, scale, a.data());
        reference().encode_e4m3(type, x.data(), count, scale, b.data());
        ASSERT_EQ(a, b) << "type " << static_cast<int>(type) << " n " << n << " scale " << scale;
      }
    }
  }
}

// Every significand divided by every significand: what the reference gets by a division, others get without one.
TEST_P(EncodeTest, EveryQuotientIsRoundedLikeTheReference) {
  for (const SourceType type : {SourceType::kBF16, SourceType::kF16}) {
    const int n = type == SourceType::kBF16 ? 128 : 1024;
    std::vector<float> numbers;
    for (int i = 0; i < n; ++i)
      numbers.push_back(64.0f * (1.0f + static_cast<float>(i) / static_cast<float>(n)));
    const std::vector<uint8_t> x = narrow(type, numbers);
    std::vector<int8_t> a(numbers.size()), b(numbers.size());
    std::vector<uint8_t> c(numbers.size()), d(numbers.size());
    for (int i = 0; i < n; ++i) {
      const float scale = 1.0f + static_cast<float>(i) / static_cast<float>(n);
      ops().encode_int(type, x.data(), n, scale, 0, -128, 127, a.data());
      reference().encode_int(type, x.data(), n, scale, 0, -128, 127, b.data());
      ASSERT_EQ(a, b) << scale;
      ops().encode_e4m3(type, x.data(), n, scale, c.data());
      reference().encode_e4m3(type, x.data(), n, scale, d.data());
      ASSERT_EQ(c, d) << scale;
    }
  }
}

TEST_P(EncodeTest, NaNIsZeroAndInfinityTheLimit) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const SourceType type : kTypes) {
    const std::vector<uint8_t> x = narrow(type, {std::nanf(""), inf, -inf, -std::nanf(""), 1.0f});
    std::vector<int8_t> q(5);
    ops().encode_int(type, x.data(), 5, 0.5f, 0, -8, 7, q.data());
    EXPECT_EQ(q, (std::vector<int8_t>{0, 7, -8, 0, 2}));
    std::vector<uint8_t> f(5);
    ops().encode_e4m3(type, x.data(), 5, 0.5f, f.data());
    EXPECT_EQ(f, (std::vector<uint8_t>{0, 0x7e, 0xfe, 0, float_to_e4m3(2.0f)}));
  }
}

TEST_P(EncodeTest, RoundsHalfToEvenAfterClamping) {
  const std::vector<float> x = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 127.5f, -127.5f, -128.5f, 300.0f, -300.0f};
  std::vector<int8_t> q(x.size());
  const int64_t n = static_cast<int64_t>(x.size());
  ops().encode_int(SourceType::kF32, x.data(), n, 1.0f, 0, -128, 127, q.data());
  EXPECT_EQ(q, (std::vector<int8_t>{0, 2, 2, 0, -2, 127, -128, -128, 127, -128}));
}

}  // namespace
}  // namespace roundel
