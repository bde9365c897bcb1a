// What is understood of a model and its tokenizer, and what is refused, by name.
#include "checkpoint/gguf/model.h"

#include <nlohmann/json.hpp>

#include "checkpoint/gguf/config_export.h"
#include "checkpoint/gguf/pre_tokenizers.h"
#include "checkpoint/gguf/tensor_names.h"
#include "checkpoint/gguf/tokenizer_export.h"
#include "checkpoint/gguf/vocab.h"
#include "gguf_test_util.h"

namespace roundel {
namespace {

using Words = std::vector<std::string>;

struct Imported {
  Json config, generation, tokenizer, tokenizer_config;
  std::vector<std::string> tensors;
};

Imported import_memory(const GgufBuilder& b) {
  const std::vector<uint8_t> file = b.build();
  const MemoryBytes bytes(file, "test.gguf");
  const GgufFile gguf = read_gguf(bytes);
  const GgufModel model = read_gguf_model(gguf, bytes);
  Imported out;
  for (const ImportedTensor& t : plan_gguf_tensors(gguf, model)) out.tensors.push_back(t.spec.name);
  const GgufVocab vocab = read_gguf_vocab(gguf, model);
  out.config = export_config(model, vocab);
  out.generation = export_generation_config(vocab);
  out.tokenizer = parse_json(export_tokenizer(vocab, "test.gguf"), "tokenizer.json");
  out.tokenizer_config = parse_json(export_tokenizer_config(vocab, "test.gguf"), "tokenizer_config.json");
  return out;
}

void refused(const GgufBuilder& b, ErrorCode code, Words words) {
  words.push_back("test.gguf");
  expect_refused([&] { import_memory(b); }, code, words);
}

TEST(GgufModel, ReadsTheTinyModel) {
  const Imported m = import_memory(tiny_model());
  EXPECT_EQ(m.tensors.size(), 11u);
  EXPECT_EQ(m.tensors.front(), "model.embed_tokens.weight");
  EXPECT_EQ(m.config["head_dim"], 4);
  EXPECT_EQ(m.config["num_key_value_heads"], 2);
  EXPECT_EQ(m.config["rms_norm_eps"], 1e-5);  // not 9.99999974738e-06
  EXPECT_EQ(m.config["rope_theta"], 10000.0);
  EXPECT_EQ(m.config["tie_word_embeddings"], true);
  EXPECT_EQ(m.config["rope_scaling"], nullptr);
  EXPECT_EQ(m.generation, (Json{{"_from_model_config", true}, {"bos_token_id", 0}, {"eos_token_id", 4}}));
}

TEST(GgufModel, RefusesByNameWhatIsNotImported) {
  const auto kUnsupported = ErrorCode::kUnsupported;
  GgufBuilder arch = tiny_model({"general.architecture"});
  arch.text("general.architecture", "mamba");
  refused(arch, kUnsupported, {"mamba", "llama, qwen2, qwen3, phi3"});
  GgufBuilder adapter = tiny_model();
  adapter.text("general.type", "adapter");
  refused(adapter, kUnsupported, {"general.type", "adapter"});
  GgufBuilder split = tiny_model();
  split.number<uint16_t>("split.count", 2, 3);
  refused(split, kUnsupported, {"split.count", "--merge"});
  GgufBuilder experts = tiny_model();
  experts.u32("llama.expert_count", 8);
  refused(experts, kUnsupported, {"llama.expert_count"});
  GgufBuilder scale = tiny_model();
  scale.f32("llama.logit_scale", 0.5f);
  refused(scale, kUnsupported, {"llama.logit_scale"});
  GgufBuilder window = tiny_model();
  window.u32("llama.attention.sliding_window", 32);
  refused(window, kUnsupported, {"llama.attention.sliding_window", "32"});
  GgufBuilder rotation = tiny_model();
  rotation.u32("llama.rope.dimension_count", 2);
  refused(rotation, kUnsupported, {"llama.rope.dimension_count", "2 of 4"});
  GgufBuilder value = tiny_model();
  value.u32("llama.attention.value_length", 8);
  refused(value, kUnsupported, {"attention.value_length"});
  GgufBuilder some_biases = tiny_model();
  some_biases.f32_tensor("blk.0.attn_q.bias", {8}, std::vector<float>(8, 0.5f));
  refused(some_biases, kUnsupported, {"1 of 4 attention biases"});
  GgufBuilder layers = tiny_model({"llama.attention.head_count"});
  layers.numbers<uint32_t>("llama.attention.head_count", 4, {2, 4});
  refused(layers, kUnsupported, {"llama.attention.head_count", "differs between layers"});
}

TEST(GgufModel, RefusesSizesThatCannotBe) {
  for (const char* key : {"general.architecture", "llama.context_length", "llama.embedding_length",
                          "llama.block_count", "llama.feed_forward_length", "llama.attention.head_count",
                          "llama.attention.layer_norm_rms_epsilon"}) {
    refused(tiny_model({key}), ErrorCode::kInvalid, {key, "missing"});
  }
  const auto with = [](const char* key, uint32_t v) {
    GgufBuilder b = tiny_model({key});
    b.u32(key, v);
    return b;
  };
  refused(with("llama.block_count", 0), ErrorCode::kInvalid, {"llama.block_count is 0"});
  refused(with("llama.block_count", 4000000000), ErrorCode::kInvalid, {"llama.block_count is 4000000000"});
  refused(with("llama.attention.head_count", 3), ErrorCode::kInvalid, {"multiple of 3 heads"});
  refused(with("llama.attention.head_count_kv", 4), ErrorCode::kInvalid, {"2 heads", "multiple of 4"});
  refused(with("llama.attention.key_length", 5), ErrorCode::kInvalid, {"heads of 5 dimensions"});
  refused(with("llama.vocab_size", 6), ErrorCode::kInvalid, {"llama.vocab_size", "5 rows"});
}

TEST(GgufModel, ListsAllTensorsThatDoNotFit) {
  GgufBuilder b = tiny_model({"blk.0.attn_k.weight", "blk.0.ffn_up.weight"});
  b.f32_tensor("blk.0.attn_k.weight", {8, 4}, std::vector<float>(32, 0.5f));
  b.f32_tensor("blk.0.attn_rot_embd", {4}, std::vector<float>(4, 0.5f));
  refused(b, ErrorCode::kInvalid,
          {"LlamaForCausalLM", "blk.0.attn_k.weight", "[4, 8], expected [8, 8]",
           "blk.0.ffn_up.weight: is missing", "blk.0.attn_rot_embd", "not part of this architecture"});
  GgufBuilder layers = tiny_model({"llama.block_count"});
  layers.u32("llama.block_count", 3);
  refused(layers, ErrorCode::kInvalid,
          {"blk.1.attn_norm.weight: is missing", "blk.2.ffn_down.weight: is missing"});
}

TEST(GgufModel, RefusesABiasOfBlocksWhoseRowsMove) {
  GgufBuilder b =
      tiny_model({"llama.attention.head_count", "llama.attention.key_length", "blk.0.attn_q.weight",
                  "blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.0.attn_output.weight"});
  b.u32("llama.attention.head_count", 2);
  b.u32("llama.attention.key_length", 16);
  const std::vector<float> weight(256, 0.5f);
  for (const char* part : {"q", "k", "v"}) {
    const std::string name = std::string("blk.0.attn_") + part;
    b.f32_tensor(name + ".weight", {8, 32}, weight);
    b.tensor(name + ".bias", {32}, 8, std::string(34, '\0'));
  }
  b.f32_tensor("blk.0.attn_output.weight", {32, 8}, weight);
  b.tensor("blk.0.attn_output.bias", {8}, 0, std::string(32, '\0'));
  refused(b, ErrorCode::kInvalid, {"blk.0.attn_q.bias", "Q8_0", "blk.0.attn_k.bias"});
}

TEST(GgufModel, MapsRopeScaling) {
  GgufBuilder linear = tiny_model();
  linear.f32("llama.rope.scale_linear", 2.0f);  // the older key
  EXPECT_EQ(import_memory(linear).config["rope_scaling"], (Json{{"rope_type", "linear"}, {"factor", 2.0}}));
  GgufBuilder none = tiny_model();
  none.text("llama.rope.scaling.type", "none");
  none.f32("llama.rope.scaling.factor", 2.0f);
  EXPECT_EQ(import_memory(none).config["rope_scaling"], nullptr);
  GgufBuilder unknown = tiny_model();
  unknown.text("llama.rope.scaling.type", "spiral");
  refused(unknown, ErrorCode::kUnsupported, {"llama.rope.scaling.type", "spiral"});
  GgufBuilder yarn = tiny_model();
  yarn.text("llama.rope.scaling.type", "yarn");
  yarn.f32("llama.rope.scaling.factor", 4.0f);
  refused(yarn, ErrorCode::kInvalid, {"original_context_length is missing"});
  yarn.u32("llama.rope.scaling.original_context_length", 16);
  EXPECT_EQ(import_memory(yarn).config["rope_scaling"]["original_max_position_embeddings"], 16);
  yarn.f32("llama.rope.scaling.yarn_log_multiplier", 0.1f);
  refused(yarn, ErrorCode::kUnsupported, {"yarn_log_multiplier"});
}

GgufBuilder with_table(const std::vector<float>& table, uint32_t head_dim) {
  GgufBuilder b = tiny_model({"llama.rope.freq_base", "llama.attention.head_count"});
  b.u32("llama.attention.head_count", 8 / head_dim);
  b.f32("llama.rope.freq_base", 500000.0f);
  b.f32_tensor("rope_freqs.weight", {table.size()}, table);
  return b;
}

// The tables come from transformers.
TEST(GgufModel, RecognisesTheTablesOfLlama3) {
  const Json tables = read_json_file(gguf_fixture("llama3_rope.json"));
  ASSERT_EQ(tables.size(), 2u);
  for (const Json& t : tables) {
    const int64_t dimensions = t["dimensions"];
    const std::vector<double> table = t["table"];
    const std::vector<double> ours = llama3_rope_factors(dimensions, 500000, t["factor"], 1, 4, 8192);
    ASSERT_EQ(ours.size(), table.size());
    for (size_t i = 0; i < table.size(); ++i) EXPECT_NEAR(ours[i], table[i], 1e-5 * table[i]) << i;

    GgufBuilder b;
    b.f32("llama.rope.freq_base", 500000.0f);
    b.f32_tensor("rope_freqs.weight", {table.size()}, std::vector<float>(table.begin(), table.end()));
    const std::vector<uint8_t> file = b.build();
    const MemoryBytes bytes(file, "test.gguf");
    const GgufRope rope = read_gguf_rope(read_gguf(bytes), bytes, "llama", dimensions, 131072);
    EXPECT_EQ(rope.type, "llama3");
    EXPECT_NEAR(rope.factor, t["factor"].get<double>(), 1e-4);
    EXPECT_EQ(rope.original_context, 8192);
  }
}

TEST(GgufModel, RefusesOtherTablesOfFrequencies) {
  EXPECT_EQ(import_memory(with_table({1.0f, 1.0f}, 4)).config["rope_scaling"], nullptr);
  refused(with_table({1.0f, 8.0f}, 4), ErrorCode::kUnsupported, {"rope_freqs.weight", "entry 1 is 8"});
  refused(with_table({1.0f}, 4), ErrorCode::kInvalid, {"rope_freqs.weight", "[1]", "[2]"});
  refused(with_table({1.0f, -8.0f}, 4), ErrorCode::kInvalid, {"rope_freqs.weight", "-8"});
}

TEST(GgufTokenizer, RefusesByNameWhatIsNotImported) {
  GgufBuilder kind = tiny_model({"tokenizer.ggml.model"});
  kind.text("tokenizer.ggml.model", "bert");
  refused(kind, ErrorCode::kUnsupported, {"tokenizer.ggml.model", "bert"});
  GgufBuilder pre = tiny_model({"tokenizer.ggml.pre"});
  pre.text("tokenizer.ggml.pre", "klingon");
  refused(pre, ErrorCode::kUnsupported, {"klingon", "tokenizer.ggml.pre", "qwen2"});
}

TEST(GgufTokenizer, RefusesBrokenVocabularies) {
  const auto replace = [](const char* key) { return tiny_model({key}); };
  refused(replace("tokenizer.ggml.tokens"), ErrorCode::kInvalid, {"tokenizer.ggml.tokens is missing"});
  refused(replace("tokenizer.ggml.merges"), ErrorCode::kInvalid, {"tokenizer.ggml.merges is missing"});
  GgufBuilder many = replace("tokenizer.ggml.tokens");
  many.texts("tokenizer.ggml.tokens", {"1", "a", "b", "ab", "5", "6"});
  refused(many, ErrorCode::kInvalid, {"6 tokens", "5 rows"});
  GgufBuilder twice = replace("tokenizer.ggml.tokens");
  twice.texts("tokenizer.ggml.tokens", {"a", "a", "b", "ab", "c"});
  refused(twice, ErrorCode::kInvalid, {"tokens 0 and 1 are both \"a\""});
  GgufBuilder bytes = replace("tokenizer.ggml.tokens");
  bytes.texts("tokenizer.ggml.tokens", {"\xFF", "a", "b", "ab", "c"});
  refused(bytes, ErrorCode::kInvalid, {"token 0", "UTF-8"});
  GgufBuilder kinds = replace("tokenizer.ggml.token_type");
  kinds.numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 1, 7, 1});
  refused(kinds, ErrorCode::kInvalid, {"token_type of token 3 is 7"});
  GgufBuilder few = replace("tokenizer.ggml.token_type");
  few.numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 1});
  refused(few, ErrorCode::kInvalid, {"2 entries for 5 tokens"});
  GgufBuilder bos = replace("tokenizer.ggml.bos_token_id");
  bos.u32("tokenizer.ggml.bos_token_id", 5);
  refused(bos, ErrorCode::kInvalid, {"tokenizer.ggml.bos_token_id is 5"});
  GgufBuilder no_bos = replace("tokenizer.ggml.bos_token_id");
  no_bos.flag("tokenizer.ggml.add_bos_token", 1);
  refused(no_bos, ErrorCode::kInvalid, {"tokenizer.ggml.bos_token_id is missing"});
  for (const char* bad : {"", "ab", "a ", " a", "a c", "b a"}) {
    GgufBuilder merge = replace("tokenizer.ggml.merges");
    merge.texts("tokenizer.ggml.merges", {"a b", bad});
    refused(merge, ErrorCode::kInvalid, {"merge 1"});
  }
}

TEST(GgufTokenizer, WritesSpecialTokensAndSwitches) {
  GgufBuilder b = tiny_model({"tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"});
  b.texts("tokenizer.ggml.tokens", {"<s>", "a", "<think>", "<|im_end|>", "[PAD4]"});
  b.numbers<int32_t>("tokenizer.ggml.token_type", 5, {3, 1, 4, 3, 5});
  b.texts("tokenizer.ggml.merges", {});
  b.flag("tokenizer.ggml.add_bos_token", 1);
  b.text("tokenizer.chat_template", "{{ bos_token }}");
  GgufBuilder bad_eos = b;
  refused(bad_eos, ErrorCode::kInvalid, {"tokenizer.ggml.eos_token_id is 4", "empty"});

  GgufBuilder good = tiny_model({"tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
                                 "tokenizer.ggml.merges", "tokenizer.ggml.eos_token_id"});
  good.texts("tokenizer.ggml.tokens", {"<s>", "a", "<think>", "<|im_end|>", "[PAD4]"});
  good.numbers<int32_t>("tokenizer.ggml.token_type", 5, {3, 1, 4, 3, 5});
  good.texts("tokenizer.ggml.merges", {});
  good.u32("tokenizer.ggml.eos_token_id", 1);
  good.flag("tokenizer.ggml.add_bos_token", 1);
  good.flag("tokenizer.ggml.add_eos_token", 1);
  good.text("tokenizer.chat_template", "{{ bos_token }}");
  const Imported m = import_memory(good);
  EXPECT_EQ(m.tokenizer["model"]["vocab"], (Json{{"<s>", 0}, {"a", 1}, {"<think>", 2}, {"<|im_end|>", 3}}));
  ASSERT_EQ(m.tokenizer["added_tokens"].size(), 4u);  // "a" too: it is the end token
  EXPECT_EQ(m.tokenizer["added_tokens"][2]["content"], "<think>");
  EXPECT_EQ(m.tokenizer["added_tokens"][2]["special"], false);
  EXPECT_EQ(m.tokenizer["post_processor"]["single"].size(), 3u);
  EXPECT_EQ(m.tokenizer["post_processor"]["single"][0]["SpecialToken"]["id"], "<s>");
  EXPECT_EQ(m.tokenizer["post_processor"]["single"][2]["SpecialToken"]["id"], "a");
  EXPECT_EQ(m.tokenizer["post_processor"]["pair"].size(), 6u);
  EXPECT_EQ(m.tokenizer["post_processor"]["special_tokens"]["<s>"]["ids"], Json::array({0}));
  EXPECT_EQ(m.tokenizer_config["chat_template"], "{{ bos_token }}");
  EXPECT_EQ(m.tokenizer_config["add_bos_token"], true);
  EXPECT_EQ(m.config["eos_token_id"], 1);
  EXPECT_EQ(m.generation["eos_token_id"], Json::array({1, 3}));  // the end of a turn as well
}

TEST(GgufTokenizer, AddsABeginTokenByDefaultWhereLlamaCppDoes) {
  EXPECT_TRUE(find_pre_tokenizer("llama-bpe", "f").add_bos);
  EXPECT_TRUE(find_pre_tokenizer("tekken", "f").add_bos);
  EXPECT_FALSE(find_pre_tokenizer("qwen2", "f").add_bos);
  EXPECT_FALSE(find_pre_tokenizer("", "f").add_bos);
  EXPECT_TRUE(find_pre_tokenizer("llama-bpe", "f").ignore_merges);
  GgufBuilder b = tiny_model({"tokenizer.ggml.pre"});
  b.text("tokenizer.ggml.pre", "llama-bpe");
  EXPECT_EQ(import_memory(b).tokenizer["post_processor"]["single"].size(), 2u);
  b.flag("tokenizer.ggml.add_bos_token", 0);
  EXPECT_EQ(import_memory(b).tokenizer["post_processor"], nullptr);
}

// "abc" splits two ways; the better piece comes first, and of one piece the split with the better left part.
TEST(GgufTokenizer, BuildsMergesFromScores) {
  using K = GgufTokenKind;
  const std::vector<std::string_view> tokens = {"<unk>",
                                                "a",
                                                "b",
                                                "c",
                                                "ab",
                                                "bc",
                                                "abc",
                                                "\xC3\xA9",
                                                "\xC3\xA9"
                                                "a",
                                                "<"};
  const std::vector<K> kinds = {K::kUnknown, K::kNormal, K::kNormal, K::kNormal, K::kNormal,
                                K::kNormal,  K::kNormal, K::kNormal, K::kNormal, K::kControl};
  const std::vector<double> scores = {0, -10, -11, -12, -2, -1, -3, -13, -0.5, 0};
  const auto merges = merges_from_scores(tokens, kinds, scores);
  const std::vector<std::pair<std::string_view, std::string_view>> expected = {
      {"\xC3\xA9", "a"}, {"b", "c"}, {"a", "b"}, {"ab", "c"}, {"a", "bc"}};
  EXPECT_EQ(merges, expected);
}

TEST(GgufTokenizer, ExportsASentencePieceModel) {
  GgufBuilder b = tiny_model({"tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
                              "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"});
  b.text("tokenizer.ggml.model", "llama");
  b.texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<0x0A>", "a"});
  b.numbers<int32_t>("tokenizer.ggml.token_type", 5, {2, 3, 3, 6, 1});
  refused(b, ErrorCode::kInvalid, {"tokenizer.ggml.scores is missing"});
  b.numbers<float>("tokenizer.ggml.scores", 6, {0, 0, 0, 0, -1});
  const Imported m = import_memory(b);
  EXPECT_EQ(m.tokenizer["normalizer"]["normalizers"].size(), 2u);
  EXPECT_EQ(m.tokenizer["decoder"]["decoders"].size(), 4u);
  EXPECT_EQ(m.tokenizer["model"]["byte_fallback"], true);
  EXPECT_EQ(m.tokenizer["model"]["unk_token"], "<unk>");
  EXPECT_EQ(m.tokenizer["post_processor"]["single"][0]["SpecialToken"]["id"], "<s>");  // by default
  EXPECT_EQ(m.config["bos_token_id"], 1);
  EXPECT_EQ(m.config["eos_token_id"], 2);
  b.flag("tokenizer.ggml.add_space_prefix", 0);
  const Imported plain = import_memory(b);
  EXPECT_EQ(plain.tokenizer["normalizer"]["normalizers"].size(), 1u);
  EXPECT_EQ(plain.tokenizer["decoder"]["decoders"].size(), 3u);
  b.flag("tokenizer.ggml.remove_extra_whitespaces", 1);
  refused(b, ErrorCode::kUnsupported, {"remove_extra_whitespaces"});
}

TEST(GgufTokenizer, LimitsThePiecesOfASentencePieceModel) {
  GgufBuilder b = tiny_model({"tokenizer.ggml.model", "tokenizer.ggml.tokens"});
  b.text("tokenizer.ggml.model", "llama");
  b.texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", std::string(513, 'x'), "a"});
  refused(b, ErrorCode::kLimit, {"token 3 has 513 bytes"});
}

TEST(GgufModel, PermutesRowsWithinHeads) {
  // Head of 6: halves (0 1 2 | 3 4 5) are stored as pairs 0 3 1 4 2 5.
  std::vector<int64_t> rows;
  for (int64_t r = 0; r < 12; ++r) rows.push_back(permuted_row(r, 6));
  EXPECT_EQ(rows, (std::vector<int64_t>{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
}

}  // namespace
}  // namespace roundel
