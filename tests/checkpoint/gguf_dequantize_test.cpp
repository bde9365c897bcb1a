// blocks.gguf and blocks.f32: random blocks of every type, and what ggml's own Python package makes of them.
#include "checkpoint/gguf/dequantize.h"

#include <cmath>
#include <set>

#include "base/numeric.h"
#include "gguf_test_util.h"

namespace roundel {
namespace {

TEST(Gguf, DequantizesEveryTypeBitForBitAsGgmlDoes) {
  const FileBytes bytes(File::open_read(gguf_fixture("blocks.gguf")));
  const GgufFile file = read_gguf(bytes);
  const std::string expected = read_text_file(gguf_fixture("blocks.f32"), 1 << 20);
  std::set<std::string_view> types;
  size_t at = 0;
  for (const GgufTensor& t : file.tensors) {
    SCOPED_TRACE(t.name);
    ASSERT_EQ(t.name, t.type->name);
    ASSERT_EQ(t.shape, (Shape{2, 512}));
    types.insert(t.type->name);
    std::vector<uint8_t> raw(t.bytes);
    bytes.read(t.begin, raw.data(), raw.size());
    std::vector<float> values(t.elements);
    t.type->dequantize(raw.data(), static_cast<int64_t>(t.elements), values.data());
    ASSERT_LE(at + values.size() * 4, expected.size());
    size_t wrong = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t want;
      std::memcpy(&want, expected.data() + at + i * 4, 4);
      wrong += float_bits(values[i]) != want;
    }
    EXPECT_EQ(wrong, 0u);
    at += values.size() * 4;
  }
  EXPECT_EQ(at, expected.size());
  EXPECT_EQ(types.size(), 11u);
  for (const std::string_view type : types)
    EXPECT_NE(importable_ggml_types().find(type), std::string::npos) << type;
}

TEST(Gguf, ConvertsEveryHalfAsTheScalarFunctionDoes) {
  std::vector<uint16_t> codes(65536);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  std::vector<float> values(codes.size());
  dequantize_f16(reinterpret_cast<const uint8_t*>(codes.data()), 65536, values.data());
  for (size_t i = 0; i < codes.size(); ++i) {
    const float want = f16_to_float(codes[i]);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(values[i])) << i;
    } else {
      ASSERT_EQ(float_bits(values[i]), float_bits(want)) << i;
    }
  }
}

TEST(Gguf, KnowsTypesThatItDoesNotImportByName) {
  ASSERT_NE(find_ggml_type(uint32_t{23}), nullptr);
  EXPECT_EQ(find_ggml_type(uint32_t{23})->name, "IQ4_XS");
  EXPECT_EQ(find_ggml_type(uint32_t{23})->dequantize, nullptr);
  EXPECT_EQ(find_ggml_type(uint32_t{4}), nullptr);
  EXPECT_EQ(find_ggml_type(uint32_t{5000}), nullptr);
}

}  // namespace
}  // namespace roundel
