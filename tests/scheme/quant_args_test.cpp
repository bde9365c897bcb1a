#include "scheme/quant_args.h"

#include <gtest/gtest.h>

#include "tests/scheme/scheme_test_util.h"

namespace roundel {
namespace {

// What the original writes, in the few spellings where ours differs and means the same.
Json normalized(Json written, const Json& args) {
  if (written["group_size"].is_number() && written["group_size"] <= 0) written["group_size"] = nullptr;
  if (written.contains("actorder") && written["actorder"] == "weight") written["actorder"] = "static";
  if (args.contains("zp_dtype") && args["zp_dtype"].is_null()) written.erase("zp_dtype");
  return written;
}

TEST(QuantArgs, AcceptsAndRefusesWhatTheOriginalDoes) {
  const Json cases = fixture("quant_args.json")["same"];
  ASSERT_GT(cases.size(), 90u);
  for (const Json& c : cases) {
    Json written;
    const std::string error =
        error_of([&] { written = to_json(parse_quant_args(c["args"], ArgsRole::kWeights, "w")); });
    EXPECT_EQ(error.empty(), c["accepted"].get<bool>()) << c["args"] << ": " << error;
    if (error.empty() && c["accepted"].get<bool>()) {
      EXPECT_EQ(written, normalized(c["written"], c["args"])) << c["args"];
    }
    if (!error.empty()) {
      EXPECT_TRUE(error.starts_with("w: ")) << error;
    }
  }
}

TEST(QuantArgs, WantsNumbersAndFlagsAsSuch) {
  const Json cases = fixture("quant_args.json")["converted"];
  ASSERT_FALSE(cases.empty());
  for (const Json& c : cases)
    EXPECT_NE(error_of([&] { parse_quant_args(c["args"], ArgsRole::kWeights, "w"); }), "") << c["args"];
}

TEST(QuantArgs, ReadsTheRemovedActivationOrder) {
  const Json cases = fixture("quant_args.json")["removed"];
  ASSERT_FALSE(cases.empty());
  for (const Json& c : cases) {
    const QuantArgs args = parse_quant_args(c["args"], ArgsRole::kWeights, "w");
    EXPECT_EQ(args.actorder, ActOrder::kGroup);
    EXPECT_EQ(to_json(args)["actorder"], "group");
  }
  const Json channel = {{"strategy", "channel"}, {"actorder", "group"}};
  EXPECT_TRUE(contains(error_of([&] { parse_quant_args(channel, ArgsRole::kWeights, "w"); }), "actorder"));
}

TEST(QuantArgs, NamesTheNearestKey) {
  const std::string error = error_of([] {
    parse_quant_args(Json{{"num_bit", 4}}, ArgsRole::kWeights, "config.json: weights");
  });
  EXPECT_TRUE(contains(error, "config.json: weights: unknown key \"num_bit\"; did you mean \"num_bits\"?"))
      << error;
}

TEST(QuantArgs, LimitsSizes) {
  const int64_t huge = int64_t{1} << 40;
  for (const Json& args :
       {Json{{"num_bits", 0}}, Json{{"num_bits", -3}}, Json{{"num_bits", 1000}}, Json{{"group_size", huge}},
        Json{{"strategy", "block"}, {"block_structure", {huge, 1}}},
        Json{{"strategy", "block"}, {"block_structure", "99999999999999999999x1"}}, Json(3), Json()})
    EXPECT_NE(error_of([&] { parse_quant_args(args, ArgsRole::kWeights, "w"); }), "") << args;
}

TEST(QuantArgs, KnowsItsRange) {
  EXPECT_EQ((QuantArgs{.num_bits = 4}.qmin()), -8);
  EXPECT_EQ((QuantArgs{.num_bits = 4}.qmax()), 7);
  EXPECT_EQ((QuantArgs{.num_bits = 8}.qmin()), -128);
  EXPECT_EQ((QuantArgs{.num_bits = 2}.qmax()), 1);
  EXPECT_EQ((QuantArgs{.type = NumberType::kFloat}.qmin()), -448);
  EXPECT_EQ((QuantArgs{.num_bits = 4, .type = NumberType::kFloat}.qmax()), 6);
  EXPECT_EQ((QuantArgs{.num_bits = 6, .type = NumberType::kFloat}.qmax()), 7.5);
}

TEST(QuantArgs, ComparesNumbersWithoutObservers) {
  const QuantArgs a{.num_bits = 4};
  QuantArgs b = a;
  b.observer = "minmax";
  b.observer_kwargs = "{\"x\":1}";
  EXPECT_TRUE(a.same_numbers(b));
  EXPECT_FALSE(a == b);
  b.symmetric = false;
  EXPECT_FALSE(a.same_numbers(b));
}

TEST(Scheme, AcceptsAndRefusesWhatTheOriginalDoes) {
  const Json cases = fixture("schemes.json");
  for (const Json& c : cases) {
    const std::string error = error_of([&] { parse_scheme(c["scheme"], "g"); });
    EXPECT_EQ(error.empty(), c["accepted"].get<bool>()) << c["scheme"] << ": " << error;
  }
}

TEST(Scheme, WantsTargetsAsAListOfStrings) {
  EXPECT_EQ(parse_targets(Json{{"targets", {"Linear", "re:x"}}}, "g"),
            (std::vector<std::string>{"Linear", "re:x"}));
  for (const Json& group : {Json::object(), Json{{"targets", "Linear"}}, Json{{"targets", {1}}}, Json(1)})
    EXPECT_NE(error_of([&] { parse_targets(group, "g"); }), "") << group;
}

TEST(Scheme, IsDescribedInTheWordsOfTables) {
  const std::pair<const char*, const char*> expected[] = {
      {"W4A16", "W4A16 g128"},        {"W4A16_ASYM", "W4A16 g128 asym"},  {"W8A8", "W8A8 channel/token"},
      {"W4A8", "W4A8 g128/token"},    {"W4AFP8", "W4AFP8 g128/token"},    {"FP8", "FP8 static"},
      {"FP8_DYNAMIC", "FP8 dynamic"}, {"FP8_BLOCK", "FP8 block 128x128"}, {"UNQUANTIZED", "dense"},
  };
  for (const auto& [name, text] : expected) EXPECT_EQ(describe(preset(name)), text);
  EXPECT_EQ(
      describe(Scheme{.weights = QuantArgs{.type = NumberType::kFloat, .strategy = Strategy::kChannel}}),
      "W8A16 FP8 channel");
  Scheme asym = preset("W8A8");
  asym.input->symmetric = false;
  EXPECT_EQ(describe(asym), "W8A8 channel/token asym");
  asym.input = QuantArgs{.symmetric = false};
  EXPECT_EQ(describe(asym), "W8A8 channel/static tensor asym");
  EXPECT_EQ(describe(*preset("FP8_BLOCK").weights), "float8 block 128x128");
  EXPECT_EQ(describe(*preset("W8A8").input), "int8 token dynamic");
}

Scheme scheme_of(const Json& weights, const Json& input = nullptr) {
  return parse_scheme(Json{{"targets", {"Linear"}}, {"weights", weights}, {"input_activations", input}}, "g");
}

TEST(Supported, TakesTheSchemesOfThePresetsAndTheirVariants) {
  for (const Preset& p : presets()) {
    const std::string error = error_of([&] { require_supported(p.scheme, p.name); });
    EXPECT_EQ(error.empty(), p.refusal.empty()) << p.name << ": " << error;
  }
  for (int bits = 2; bits <= 8; ++bits)
    for (bool symmetric : {true, false})
      for (Json weights :
           {Json{{"strategy", "tensor"}}, Json{{"strategy", "channel"}}, Json{{"group_size", 32}},
            Json{{"strategy", "block"}, {"block_structure", {64, 32}}}}) {
        weights["num_bits"] = bits;
        weights["symmetric"] = symmetric;
        EXPECT_NO_THROW(require_supported(scheme_of(weights), "g")) << weights;
        const Json token = {
            {"num_bits", bits}, {"strategy", "token"}, {"dynamic", true}, {"symmetric", symmetric}};
        const std::string error = error_of([&] { require_supported(scheme_of(weights, token), "g"); });
        EXPECT_EQ(error.empty(), symmetric || bits == 8) << weights << error;
      }
  EXPECT_NO_THROW(require_supported(scheme_of({{"strategy", "channel"}}, {{"symmetric", false}}), "g"));
}

TEST(Supported, RefusesTheRestByName) {
  const Json channel = {{"strategy", "channel"}};
  const Json fp8 = {{"type", "float"}};
  const std::tuple<Json, Json, const char*> cases[] = {
      {{{"num_bits", 11}}, nullptr, "num_bits 11"},
      {{{"num_bits", 1}}, nullptr, "num_bits 1"},
      {{{"type", "float"}, {"num_bits", 4}, {"group_size", 32}}, nullptr, "MXFP4"},
      {{{"type", "float"}, {"num_bits", 4}, {"group_size", 16}, {"strategy", "tensor_group"}},
       nullptr,
       "NVFP4"},
      {{{"type", "float"}, {"num_bits", 6}, {"group_size", 32}}, nullptr, "MXFP6"},
      {{{"type", "float"}, {"group_size", 32}, {"scale_dtype", "torch.uint8"}}, nullptr, "MXFP8"},
      {{{"type", "float"}, {"symmetric", false}}, nullptr, "asymmetric float8"},
      {{{"strategy", "token"}, {"dynamic", true}}, nullptr, "dynamic quantization of weights"},
      {{{"strategy", "attn_head"}}, nullptr, "attn_head"},
      {{{"strategy", "channel"}, {"scale_dtype", "float8_e4m3fn"}}, nullptr, "scale_dtype"},
      {channel, {{"strategy", "tensor"}, {"dynamic", true}}, "input_activations"},
      {channel, {{"num_bits", 4}}, "input_activations"},
      {channel, {{"group_size", 32}, {"dynamic", true}}, "input_activations"},
      {channel, {{"num_bits", 11}, {"strategy", "token"}, {"dynamic", true}}, "num_bits 11"},
      {fp8, {{"strategy", "token"}, {"dynamic", true}}, "float8 weights with integer activations"},
      {nullptr, {{"strategy", "token"}, {"dynamic", true}}, "unquantized weights"},
  };
  for (const auto& [weights, input, part] : cases) {
    const Scheme scheme = scheme_of(weights, input);
    const std::string error = error_of([&] { require_supported(scheme, "group_0"); });
    EXPECT_TRUE(contains(error, part)) << part << ": " << error;
    EXPECT_TRUE(contains(error, "group_0") &&
                contains(error, "supported are: weights int with num_bits 2 to 8"))
        << error;
  }
  Scheme output = preset("W8A8");
  output.output = QuantArgs{};
  require_supported(output, "g");
  EXPECT_EQ(describe(output), "W8A8 channel/token, output int8");
  for (const QuantArgs& bad : {QuantArgs{.num_bits = 4}, QuantArgs{.dynamic = DynamicMode::kDynamic},
                               QuantArgs{.type = NumberType::kFloat, .symmetric = false}}) {
    output.output = bad;
    EXPECT_TRUE(contains(error_of([&] { require_supported(output, "g"); }), "g.output_activations"))
        << describe(bad);
  }
}

}  // namespace
}  // namespace roundel
