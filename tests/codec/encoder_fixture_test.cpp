// Odd rows of BF16, F16 and F32 weights against compressed-tensors (tests/tools/make_encode_fixtures.py).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/codec/codec_test_util.h"

namespace roundel {
namespace {

struct Fixture {
  std::string name, source, text;
  QuantArgs args;
};

class EncoderFixture : public testing::Test {
 protected:
  EncoderFixture() : file_(std::filesystem::path(ROUNDEL_TEST_DATA) / "encode" / "rtn.safetensors") {
    for (const Json& c : parse_json(file_.header().metadata.at("cases"), "cases")) {
      Fixture f{c["name"], c["source"], c["source"].get<std::string>() + " " + c["args"].dump(), {}};
      f.args = parse_quant_args(c["args"], ArgsRole::kWeights, f.text);
      fixtures_.push_back(f);
    }
  }
  QuantizedRows encode(const Fixture& f, ThreadPool& pool) const {
    const TensorSpec& spec = *file_.find(f.source);
    return encode_whole(f.args, spec.dtype, file_.bytes(f.source), spec.shape[0], spec.shape[1], pool);
  }

  FileTensors file_;
  std::vector<Fixture> fixtures_;
};

// One value for each row of the file, as stored: block and tensor scales once.
TEST_F(EncoderFixture, CodesScalesAndZeroPointsEqualTheOriginal) {
  ThreadPool pool(1);
  ASSERT_GE(fixtures_.size(), 90u);
  for (const Fixture& f : fixtures_) {
    SCOPED_TRACE(f.text);
    const QuantizedRows rows = encode(f, pool);
    const std::vector<uint8_t> codes = file_.bytes(f.name + ".codes");
    ASSERT_EQ(rows.codes.size(), codes.size());
    int different = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
      if (rows.codes[i] == static_cast<int8_t>(codes[i])) continue;
      if (++different == 1) {
        ADD_FAILURE() << "row " << i / 64 << " column " << i % 64 << ": " << int{rows.codes[i]}
                      << ", original " << int{static_cast<int8_t>(codes[i])};
      }
    }
    EXPECT_EQ(different, 0);

    const TensorSpec& scale_spec = *file_.find(f.name + ".scale");
    const size_t count = scale_spec.elements();
    std::vector<float> scales(count);
    widen_to_float(scale_spec.dtype, file_.bytes(scale_spec.name).data(), scales.data(), count);
    const std::vector<uint8_t> zeros = file_.bytes(f.name + ".zero");
    const int64_t groups = rows.groups;
    const int64_t share =
        rows.rows * groups / static_cast<int64_t>(count);  // rows of the weight for one of the file
    for (int64_t r = 0; r < rows.rows; ++r) {
      for (int64_t g = 0; g < groups; ++g) {
        const auto at = static_cast<size_t>(r / share * groups + g), i = static_cast<size_t>(r * groups + g);
        ASSERT_EQ(rows.scales[i], scales[at]) << "scale of row " << r << " group " << g;
        if (!f.args.symmetric) {
          ASSERT_EQ(rows.zero_points[i], static_cast<int8_t>(zeros[at]))
              << "zero point of row " << r << " group " << g;
        }
      }
    }
  }
}

}  // namespace
}  // namespace roundel
