// The library as a program outside sees it: the public headers and nothing else. The numbers of the dense model are those
// of transformers 5.17 in FP32 (the same ids, log_softmax in double; generate(do_sample=False)).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "roundel/roundel.h"

namespace {

namespace fs = std::filesystem;
using namespace roundel::api;
using roundel::Error;
using roundel::ErrorCode;

const fs::path kGolden = ROUNDEL_TEST_DATA "/golden";
const fs::path kDense = kGolden / "dense/tiny_llama";

std::string read(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// The first 20000 characters of WikiText-2's test split.
std::string text() {
  const std::string all = read(ROUNDEL_TEST_DATA "/wikitext-2/wiki.test.raw");
  size_t end = 0;
  for (size_t characters = 0; characters <= 20000; ++end)
    characters += (static_cast<unsigned char>(all[end]) & 0xC0) != 0x80;
  return all.substr(0, end - 1);
}

template <class F>
void expect_error(F&& f, ErrorCode code, const std::vector<std::string>& words) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    for (const std::string& word : words)
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos)
          << "\"" << word << "\" is not in: " << e.what();
    return;
  }
  ADD_FAILURE() << "no error, expected one about " << words[0];
}

class Library : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "roundel-api-XXXXXX").string();
    ASSERT_TRUE(mkdtemp(pattern.data()));
    folder_ = pattern;
    set_log_level(LogLevel::kError);
  }
  void TearDown() override {
    interrupt(false);
    fs::remove_all(folder_);
  }
  fs::path folder_;
};

TEST_F(Library, QuantizesLikeTheOriginal) {
  const QuantizeReport r = quantize(kDense, folder_ / "w8a8", {.scheme = "W8A8"}, {.measure_error = true});
  ASSERT_EQ(r.modules.size(), 14u);
  // Codes of a byte, a BF16 scale for each of 1280 rows in each of 2 layers: 8 + 16 * 2560 / 393216
  EXPECT_NEAR(r.bits_per_weight, 8.104166667, 1e-9);
  EXPECT_GT(r.modules[0].relative_error.value(), 0);
  ASSERT_EQ(r.skipped.size(), 1u);
  EXPECT_EQ(r.skipped[0].first, "lm_head");
  EXPECT_EQ(quantize(kDense, folder_ / "again", {.scheme = "W8A8"}).modules[0].relative_error, std::nullopt);
  EXPECT_EQ(read(folder_ / "w8a8/model.safetensors"), read(folder_ / "again/model.safetensors"));
  // The weights that llm-compressor wrote load to a model of the same perplexity, to the last bit.
  const EvalOptions options{.window = 128, .limit_windows = 2};
  fs::copy(kGolden / "w8a8", folder_ / "golden");
  fs::copy(kDense / "tokenizer.json", folder_ / "golden");
  EXPECT_EQ(load(folder_ / "w8a8").evaluate(text(), options).mean_nll,
            load(folder_ / "golden").evaluate(text(), options).mean_nll);
}

TEST_F(Library, EvaluatesLikeTransformers) {
  const Model dense = load(kDense, {.threads = 2, .float_kv_cache = true});
  EXPECT_EQ(dense.info().architecture, "LlamaForCausalLM");
  EXPECT_EQ(dense.info().layers, 2);
  EXPECT_EQ(dense.info().vocab_size, 512);
  const EvalReport r = dense.evaluate(text(), {.window = 128, .every = 2, .limit_windows = 3});
  EXPECT_EQ(r.windows, 3);
  EXPECT_EQ(r.tokens, 381);
  EXPECT_NEAR(r.mean_nll, 10.236688759, 1e-5);
  EXPECT_NEAR(r.perplexity, std::exp(r.mean_nll), 1e-9);
  EXPECT_FALSE(r.against);
  // Keys and values in BF16 move it a little.
  const double other =
      load(kDense).evaluate(text(), {.window = 128, .every = 2, .limit_windows = 3}).mean_nll;
  EXPECT_NEAR(other, r.mean_nll, 3e-3);
  EXPECT_NE(other, r.mean_nll);
}

TEST_F(Library, GeneratesLikeTransformers) {
  const Model dense = load(kDense);
  std::string pieces;
  const Generation g = dense.generate(
      "Once upon a time",
      {.max_tokens = 12, .temperature = 0.0, .on_text = [&](const std::string& p) { pieces += p; }});
  EXPECT_EQ(g.ids, (std::vector<int32_t>{163, 121, 470, 310, 128, 310, 128, 433, 187, 106, 378, 59}));
  EXPECT_EQ(g.text, dense.decode(g.ids));
  EXPECT_EQ(pieces, g.text);
  EXPECT_EQ(g.finish, "length");
  EXPECT_EQ(g.prompt_tokens, 10);
  EXPECT_EQ(dense.decode(dense.encode("Once upon a time")), "Once upon a time");
  const GenerateOptions warm{.max_tokens = 12, .temperature = 1.5, .seed = 7};
  EXPECT_EQ(dense.generate("Once", warm).ids, dense.generate("Once", warm).ids);
  EXPECT_NE(dense.generate("Once", warm).ids,
            dense.generate("Once", {.max_tokens = 12, .temperature = 1.5, .seed = 8}).ids);
}

TEST_F(Library, QuantizedOnLoadEqualsQuantizedToDisk) {
  const Quantization how{.scheme = "W4A16:g32", .rules = {"re:.*down_proj=W8A16:channel"}};
  quantize(kDense, folder_ / "out", how);
  const Model dense = load(kDense), stored = load(folder_ / "out"), now = load(kDense, {.quantize = how});
  const EvalOptions options{.window = 128, .limit_windows = 2};
  const EvalReport a = stored.evaluate(text(), options, &dense), b = now.evaluate(text(), options, &dense);
  EXPECT_EQ(a.mean_nll, b.mean_nll);
  ASSERT_TRUE(a.against && b.against);
  EXPECT_EQ(a.against->kl_mean, b.against->kl_mean);
  EXPECT_GT(a.against->kl_mean, 0);
  EXPECT_LT(a.against->top1_agreement, 1);
  EXPECT_LT(stored.info().weight_bytes, dense.info().weight_bytes);
  EXPECT_EQ(stored.generate("A", {.max_tokens = 8}).ids, now.generate("A", {.max_tokens = 8}).ids);
  const EvalReport itself = dense.evaluate(text(), options, &dense);
  EXPECT_EQ(itself.against->kl_mean, 0);
  EXPECT_EQ(itself.against->top1_agreement, 1);
}

TEST_F(Library, PlanSaysWhatEachModuleGets) {
  const PlanReport p =
      plan(kDense, {.scheme = "W4A16", .group_size = 64, .ignore = {"model.layers.1.mlp.up_proj"}});
  const auto find = [&](const PlanReport& r, const std::string& name) {
    for (const PlannedModule& m : r.modules)
      if (m.name == name) return m;
    return PlannedModule{};
  };
  const PlannedModule q = find(p, "model.layers.0.self_attn.q_proj");
  EXPECT_EQ(q.rows, 128);
  EXPECT_EQ(q.cols, 128);
  EXPECT_EQ(q.format, "pack-quantized");
  EXPECT_EQ(q.bytes, 128u * 128 / 2 + 128 * 2 * 2);  // 4 bits, and a BF16 scale for 64 columns
  EXPECT_FALSE(q.kernel.empty());
  EXPECT_EQ(find(p, "model.layers.1.mlp.up_proj").scheme, "BF16");
  EXPECT_NE(find(p, "model.layers.1.mlp.up_proj").note, "");
  EXPECT_EQ(find(p, "lm_head").format, "dense");
  EXPECT_DOUBLE_EQ(p.bits_per_weight, 4.25);
  EXPECT_TRUE(p.problems.empty());
  EXPECT_EQ(plan(kDense).bits_per_weight, 0);
  EXPECT_EQ(find(plan(kGolden / "w8a8"), "model.layers.0.self_attn.q_proj").format, "int-quantized");
  // 48 does not divide 128: a problem here, an Error there.
  EXPECT_FALSE(plan(kDense, {.scheme = "W4A16:g48"}).problems.empty());
  expect_error([&] { quantize(kDense, folder_ / "out", {.scheme = "W4A16:g48"}); }, ErrorCode::kInvalid,
               {"48", "128"});
}

TEST_F(Library, ReadsARecipe) {
  std::ofstream(folder_ / "r.yaml")
      << "s_stage: {q_modifiers: {QuantizationModifier: {scheme: W8A8, ignore: [lm_head]}}}\n";
  const PlanReport p = plan(kDense, {.recipe = folder_ / "r.yaml"});
  EXPECT_NEAR(p.bits_per_weight, 8.104166667, 1e-9);
  expect_error([&] { plan(kDense, {.scheme = "W8A8", .recipe = folder_ / "r.yaml"}); }, ErrorCode::kUsage,
               {"recipe"});
}

TEST_F(Library, ErrorsNameWhatIsWrong) {
  expect_error([&] { load(folder_ / "nowhere"); }, ErrorCode::kNotFound, {"nowhere"});
  expect_error([&] { plan(kDense, {.scheme = "W4A61"}); }, ErrorCode::kInvalid, {"scheme", "W4A61", "W4A16"});
  expect_error([&] { plan(kDense, {.rules = {"down_proj"}}); }, ErrorCode::kUsage,
               {"rule \"down_proj\"", "TARGET=SCHEME"});
  expect_error([&] { plan(kDense, {.scheme = "W4A16", .group_size = -2}); }, ErrorCode::kInvalid,
               {"group_size is -2"});
  expect_error([&] { plan(kDense, {.scheme = "W8A8", .group_size = 32}); }, ErrorCode::kUsage,
               {"group_size 32"});
  expect_error([&] { plan(kDense, {.scheme = "W4A16", .on_indivisible = "skp"}); }, ErrorCode::kInvalid,
               {"on_indivisible", "did you mean \"skip\""});
  expect_error([&] { load(kDense, {.threads = -1}); }, ErrorCode::kInvalid, {"threads is -1"});
  expect_error([&] { load(kDense, {.quantize = {.group_size = 32}}); }, ErrorCode::kUsage, {"group_size"});
  expect_error([&] { quantize(kDense, folder_ / "out", {}); }, ErrorCode::kUsage, {"say what to do"});
  expect_error([&] { quantize(kDense, folder_ / "out", {.scheme = "W8A8"}, {.max_shard_bytes = 10}); },
               ErrorCode::kInvalid, {"max_shard_bytes is 10"});
  expect_error([&] { quantize(kDense, folder_ / "out", {.scheme = "W8A8", .ignore = {"Linear"}}); },
               ErrorCode::kInvalid, {"quantizes nothing"});
  const Model m = load(kDense);
  expect_error([&] { m.evaluate("short", {}); }, ErrorCode::kInvalid, {"fewer than one window of 512"});
  expect_error([&] { m.evaluate(text(), {.every = 0}); }, ErrorCode::kInvalid, {"every is 0"});
  expect_error([&] { m.generate("x", {.max_tokens = 0}); }, ErrorCode::kInvalid, {"max_tokens is 0"});
  expect_error([&] { m.generate("x", {.temperature = std::nan("")}); }, ErrorCode::kInvalid,
               {"temperature is nan"});
  expect_error([&] { m.generate("x", {.top_p = 1.5}); }, ErrorCode::kInvalid, {"top_p is 1.5"});
  expect_error([&] { m.chat({{"user", "hello"}}); }, ErrorCode::kNotFound, {"chat"});  // a base model
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(Library, ChatAppliesTheTemplate) {
  fs::copy(kDense, folder_ / "chat");
  std::ofstream(folder_ / "chat/chat_template.jinja")
      << "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";
  const Model m = load(folder_ / "chat");
  const Generation g = m.chat({{"system", "be brief"}, {"user", "hello"}}, {.max_tokens = 4});
  const std::string prompt = "system: be brief\nuser: hello\nassistant:";
  EXPECT_EQ(g.prompt_tokens, static_cast<int64_t>(m.encode(prompt).size()));
  EXPECT_EQ(g.ids.size(), 4u);
}

TEST_F(Library, InterruptEndsCallsUntilItIsTakenBack) {
  const Model m = load(kDense);
  interrupt();
  expect_error([&] { m.generate("x"); }, ErrorCode::kInterrupted, {"interrupted"});
  expect_error([&] { quantize(kDense, folder_ / "out", {.scheme = "W8A8"}); }, ErrorCode::kInterrupted,
               {"interrupted"});
  EXPECT_TRUE(fs::is_empty(folder_));
  interrupt(false);
  EXPECT_EQ(m.generate("x", {.max_tokens = 2}).ids.size(), 2u);
}

}  // namespace
