// Pieces, threads and moved rows, against the plain way: dequantize all, move rows, round.
#include "checkpoint/gguf/convert.h"

#include <random>

#include "base/numeric.h"
#include "gguf_test_util.h"

namespace roundel {
namespace {

struct Case {
  const char* type;
  int64_t rows, columns, heads;
};

// Random blocks; the top bits of every byte pair are cleared of huge exponents, so that all FP16 scales are small.
std::string random_blocks(const GgmlType& type, uint64_t bytes) {
  std::minstd_rand random(7);
  std::string data(bytes, '\0');
  for (char& c : data) c = static_cast<char>(random());
  for (uint64_t at = 0; at < bytes; at += type.block_bytes) {
    for (const size_t half : {type.name == "Q6_K" ? 208u : 0u, 2u}) {
      if (half + 1 < type.block_bytes) data[at + half + 1] = static_cast<char>(data[at + half + 1] & 0xB7);
    }
  }
  return data;
}

class GgufConvert : public testing::TestWithParam<Case> {};

TEST_P(GgufConvert, EqualsThePlainWay) {
  const Case& c = GetParam();
  const GgmlType& type = *find_ggml_type(std::string_view(c.type));
  const uint64_t elements = static_cast<uint64_t>(c.rows * c.columns);
  GgufBuilder b;
  b.f32_tensor("before", {1}, {1.0f});
  const std::string data = random_blocks(type, elements / type.block * type.block_bytes);
  b.tensor("w", {static_cast<uint64_t>(c.columns), static_cast<uint64_t>(c.rows)}, type.id, data);
  const std::vector<uint8_t> file = b.build();
  const MemoryBytes bytes(file, "test.gguf");
  const GgufFile gguf = read_gguf(bytes);

  std::vector<float> values(elements);
  type.dequantize(reinterpret_cast<const uint8_t*>(data.data()), static_cast<int64_t>(elements),
                  values.data());
  std::vector<uint16_t> expected(elements);
  for (int64_t row = 0; row < c.rows; ++row) {
    const int64_t from = c.heads ? permuted_row(row, c.rows / c.heads) : row;
    for (int64_t i = 0; i < c.columns; ++i)
      expected[static_cast<size_t>(row * c.columns + i)] =
          float_to_bf16(values[static_cast<size_t>(from * c.columns + i)]);
  }
  const ImportedTensor tensor = {{"w", DType::kBF16, {c.rows, c.columns}}, gguf.find("w"), c.heads};
  for (const int threads : {1, 3}) {
    TempFolder folder;
    ThreadPool pool(threads);
    TensorWriter writer(folder.path(), {tensor.spec});
    convert_to_bf16(tensor, bytes, writer, pool);
    writer.finish();
    const std::string out = read_file(folder / "model.safetensors");
    ASSERT_GT(out.size(), elements * 2);
    EXPECT_EQ(std::memcmp(out.data() + out.size() - elements * 2, expected.data(), elements * 2), 0)
        << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GgufConvert,
                         testing::Values(Case{"Q4_K", 12, 512, 2}, Case{"Q6_K", 24, 256, 3},
                                         Case{"Q8_0", 3000, 288, 0}, Case{"Q5_1", 1200, 544, 150},
                                         Case{"Q5_K", 700, 1024, 0}, Case{"Q4_0", 1, 32, 0}),
                         [](const auto& c) {
                           return std::string(c.param.type) + "_" + std::to_string(c.param.heads);
                         });

}  // namespace
}  // namespace roundel
