#include "checkpoint/model_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

Json toy() {
  return Json::parse(R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,
    "intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"hidden_act":"silu",
    "rms_norm_eps":1e-05,"rope_theta":10000.0,"max_position_embeddings":256,"vocab_size":320,"bos_token_id":317,
    "eos_token_id":318,"tie_word_embeddings":false,"torch_dtype":"bfloat16"})");
}

ModelConfig parse(const Json& json) {
  return parse_model_config(json, "config.json");
}

void expect_rejected(const Json& changes, std::vector<std::string> words) {
  Json json = toy();
  json.update(changes);
  words.insert(words.begin(), "config.json");
  expect_error([&] { parse(json); }, words);
}

void expect_same_ids(const Json& file, const Json& expected, const char* field,
                     const std::vector<int64_t>& got) {
  if (!file.contains(field)) return;  // transformers has defaults of its own for a class
  std::vector<int64_t> want;
  if (expected[field].is_array()) want = expected[field].get<std::vector<int64_t>>();
  if (expected[field].is_number() && expected[field] >= 0) want = {expected[field].get<int64_t>()};
  EXPECT_EQ(got, want) << field;
}

void expect_same_rope(const Json& want, const ModelConfig& c) {
  EXPECT_EQ(c.rope.type, want["rope_type"].get<std::string>());
  EXPECT_EQ(c.rope.theta, want["rope_theta"].get<double>());
  EXPECT_EQ(c.rope.partial_rotary_factor, want.value("partial_rotary_factor", 1.0));
  if (want.contains("factor")) {
    EXPECT_EQ(c.rope.factor, want["factor"].get<double>());
  }
  if (want.contains("original_max_position_embeddings")) {
    EXPECT_EQ(c.rope.original_max_position, want["original_max_position_embeddings"].get<int64_t>());
  }
  if (c.rope.type == "llama3") {
    EXPECT_EQ(c.rope.low_freq_factor, want["low_freq_factor"].get<double>());
    EXPECT_EQ(c.rope.high_freq_factor, want["high_freq_factor"].get<double>());
  }
  if (c.rope.type == "longrope") {
    EXPECT_EQ(c.rope.short_factor, want["short_factor"].get<std::vector<double>>());
    EXPECT_EQ(c.rope.long_factor, want["long_factor"].get<std::vector<double>>());
    EXPECT_EQ(c.rope.factor, 32.0);  // 131072 / 4096
  }
}

std::vector<int64_t> windows_of(const ModelConfig& c) {
  std::vector<int64_t> windows(static_cast<size_t>(c.layers), c.sliding_window);
  for (size_t i = 0; i < c.layer_types.size(); ++i)
    if (c.layer_types[i] == "full_attention") windows[i] = 0;
  return windows;
}

// Configs shaped like those of well-known models, and what transformers makes of them (make_checkpoint_data.py).
TEST(ModelConfig, AgreesWithTransformers) {
  const fs::path folder = fs::path(ROUNDEL_TEST_DATA) / "configs";
  const Json all = read_json_file(folder / "expected.json");
  EXPECT_GE(all.size(), 15u);
  for (const auto& [name, want] : all.items()) {
    SCOPED_TRACE(name);
    const Json file = read_json_file(folder / (name + ".json"));
    const ModelConfig c = parse(file);
    EXPECT_EQ(c.architecture, file["architectures"][0].get<std::string>());
    EXPECT_EQ(c.hidden_size, want["hidden_size"]);
    EXPECT_EQ(c.intermediate_size, want["intermediate_size"]);
    EXPECT_EQ(c.layers, want["layers"]);
    EXPECT_EQ(c.heads, want["heads"]);
    EXPECT_EQ(c.kv_heads, want["kv_heads"]);
    EXPECT_EQ(c.head_dim, want["head_dim"]);
    EXPECT_EQ(c.vocab_size, want["vocab_size"]);
    EXPECT_EQ(c.max_position, want["max_position"]);
    EXPECT_EQ(c.rms_norm_eps, want["rms_norm_eps"]);
    EXPECT_EQ(c.tie_word_embeddings, want["tie_word_embeddings"].get<bool>());
    EXPECT_EQ(c.attention_bias, want["attention_bias"].get<bool>());
    EXPECT_EQ(dtype_name(c.dtype), want["dtype"] == "float16" ? "F16" : "BF16");
    EXPECT_EQ(windows_of(c), want["windows"].get<std::vector<int64_t>>());
    expect_same_ids(file, want, "eos_token_id", c.eos_token_ids);
    expect_same_ids(file, want, "bos_token_id", {c.bos_token_id.value_or(-9)});
    if (!c.pad_token_id) {
      expect_same_ids(file, want, "pad_token_id", {});
    }
    expect_same_rope(want["rope"], c);
  }
}

TEST(ModelConfig, RejectsImpossibleSizes) {
  expect_rejected({{"num_attention_heads", 0}}, {"num_attention_heads is 0"});
  expect_rejected({{"num_attention_heads", -4}}, {"num_attention_heads is -4"});
  expect_rejected({{"num_key_value_heads", 3}}, {"num_key_value_heads 3", "num_attention_heads 4"});
  expect_rejected({{"num_key_value_heads", 0}}, {"num_key_value_heads is 0"});
  expect_rejected({{"num_key_value_heads", 8}}, {"num_key_value_heads 8"});
  expect_rejected({{"num_hidden_layers", 1'000'000'000}}, {"num_hidden_layers is 1000000000"});
  expect_rejected({{"num_hidden_layers", 0}}, {"num_hidden_layers"});
  expect_rejected({{"hidden_size", int64_t{1} << 31}}, {"hidden_size is 2147483648"});
  expect_rejected({{"hidden_size", 66}}, {"num_attention_heads 4", "hidden_size 66"});
  expect_rejected({{"intermediate_size", 0}}, {"intermediate_size"});
  expect_rejected({{"vocab_size", 0}}, {"vocab_size is 0"});
  expect_rejected({{"vocab_size", 320.5}}, {"vocab_size is 320.5"});
  expect_rejected({{"rms_norm_eps", 0}}, {"rms_norm_eps is 0"});
  expect_rejected({{"rms_norm_eps", "small"}}, {"rms_norm_eps"});
  expect_rejected({{"head_dim", 15}}, {"head_dim is 15", "even"});
  expect_rejected({{"head_dim", 0}}, {"head_dim is 0"});
  expect_rejected({{"hidden_size", 60}}, {"head_dim is 15"});
  expect_rejected({{"num_attention_heads", 65536}, {"num_key_value_heads", 1}, {"head_dim", 16384}},
                  {"too wide"});
  expect_rejected({{"max_position_embeddings", int64_t{1} << 31}}, {"max_position_embeddings"});
  expect_rejected({{"max_position_embeddings", nullptr}}, {"max_position_embeddings is missing"});
  expect_rejected({{"hidden_size", 18446744073709551615u}}, {"hidden_size"});
}

TEST(ModelConfig, RejectsUnknownWords) {
  expect_rejected({{"hidden_act", "wavelet"}}, {"hidden_act", "wavelet", "silu"});
  expect_rejected({{"hidden_act", "gelu"}}, {"\"gelu\"", "gelu_pytorch_tanh"});
  expect_rejected({{"torch_dtype", "float8"}}, {"float8", "bfloat16"});
  expect_rejected({{"architectures", Json::array()}}, {"architectures"});
  expect_rejected({{"architectures", nullptr}}, {"architectures"});
  expect_rejected({{"architectures", "LlamaForCausalLM"}}, {"architectures"});
  expect_rejected({{"tie_word_embeddings", "yes"}}, {"tie_word_embeddings"});
  expect_rejected({{"eos_token_id", "</s>"}}, {"eos_token_id"});
  expect_rejected({{"eos_token_id", {1, 2.5}}}, {"eos_token_id"});
  expect_rejected({{"eos_token_id", 18446744073709551615u}}, {"eos_token_id"});
  expect_rejected({{"eos_token_id", -2}}, {"eos_token_id"});
  expect_rejected({{"eos_token_id", std::vector<int>(2000, 1)}}, {"eos_token_id", "2000"});
  expect_rejected({{"architectures", {5}}}, {"architectures"});
  expect_rejected({{"layer_types", "full_attention"}}, {"layer_types"});
  expect_rejected({{"hidden_size", 131072}, {"num_attention_heads", 2}}, {"head_dim is 65536"});
  expect_rejected({{"quantization_config", "int8"}}, {"quantization_config"});
  expect_error([] { parse(Json::array()); }, {"config.json", "expected an object"});
  EXPECT_EQ(architecture_name(toy(), "c"), "LlamaForCausalLM");
}

TEST(ModelConfig, ReadsWhatComesInSeveralShapes) {
  Json json = toy();
  EXPECT_FALSE(parse(json).quantized);
  json["compression_config"] = Json::object();
  json["torch_dtype"] = nullptr;
  json["dtype"] = "float32";
  json["hidden_act"] = "gelu_pytorch_tanh";
  json["eos_token_id"] = {3, 5};
  json["bos_token_id"] = nullptr;
  json["num_key_value_heads"] = nullptr;
  json["head_dim"] = nullptr;
  json["mlp_bias"] = true;
  const ModelConfig c = parse(json);
  EXPECT_TRUE(c.quantized);
  EXPECT_EQ(c.dtype, DType::kF32);
  EXPECT_EQ(c.activation, "gelu_pytorch_tanh");
  EXPECT_EQ(c.eos_token_ids, (std::vector<int64_t>{3, 5}));
  EXPECT_FALSE(c.bos_token_id);
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_TRUE(c.mlp_bias);
  const std::pair<const char*, DType> dtypes[] = {{"torch.bfloat16", DType::kBF16},
                                                  {"half", DType::kF16},
                                                  {"float", DType::kF32},
                                                  {"float16", DType::kF16}};
  for (const auto& [word, type] : dtypes) {
    json["dtype"] = word;
    EXPECT_EQ(parse(json).dtype, type) << word;
  }
  for (const char* word : {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"}) {
    json["hidden_act"] = word;
    EXPECT_EQ(parse(json).activation, "gelu_pytorch_tanh") << word;
  }
  json["hidden_act"] = "swish";
  EXPECT_EQ(parse(json).activation, "silu");
  json["eos_token_id"] = -1;  // "none" in old files
  EXPECT_TRUE(parse(json).eos_token_ids.empty());
}

TEST(ModelConfig, ReadsWindows) {
  Json json = toy();
  json["model_type"] = "mistral";
  EXPECT_EQ(parse(json).sliding_window, 4096);  // the class's default
  json["sliding_window"] = nullptr;
  EXPECT_EQ(parse(json).sliding_window, 0);
  json["sliding_window"] = 100;
  EXPECT_EQ(parse(json).sliding_window, 100);
  json["layer_types"] = {"sliding_attention", "full_attention"};
  EXPECT_EQ(windows_of(parse(json)), (std::vector<int64_t>{100, 0}));
  json["layer_types"] = {"sliding_attention", "sliding_attention"};
  EXPECT_TRUE(parse(json).layer_types.empty());
  json["model_type"] = "llama";
  json.erase("layer_types");
  EXPECT_EQ(parse(json).sliding_window, 0);  // Llama has none
  expect_rejected({{"layer_types", {"full_attention"}}}, {"layer_types", "it has 1"});
  expect_rejected({{"layer_types", {"full_attention", "conv"}}},
                  {"layer_types[1]", "\"conv\"", "sliding_attention"});
  expect_rejected({{"layer_types", {"full_attention", 1}}}, {"layer_types[1]"});
  expect_rejected({{"layer_types", {"full_attention", "sliding_attention"}}}, {"sliding_window"});
  expect_rejected({{"model_type", "mistral"}, {"sliding_window", 0}}, {"sliding_window is 0"});
}

TEST(RopeConfig, RejectsUnknownTypesAndKeys) {
  expect_rejected({{"rope_scaling", {{"rope_type", "spiral"}, {"factor", 4.0}}}},
                  {"spiral", "llama3", "longrope"});
  expect_rejected({{"rope_scaling", {{"type", "mrope"}, {"mrope_section", {1, 2}}}}}, {"mrope"});
  expect_rejected({{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}, {"alpha", 1000}}}},
                  {"\"alpha\""});
  expect_rejected({{"rope_scaling", {{"rope_type", 5}}}}, {"rope_type"});
  expect_rejected({{"rope_scaling", "linear"}}, {"rope_scaling", "object"});
  expect_rejected(
      {{"rope_parameters",
        {{"full_attention", {{"rope_type", "default"}}}, {"sliding_attention", {{"rope_type", "default"}}}}}},
      {"full_attention", "per layer type"});
  expect_rejected({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5000.0}}},
                   {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}},
                  {"rope_parameters and rope_scaling"});
}

TEST(RopeConfig, RejectsBadNumbers) {
  auto scaling = [](const Json& fields) { return Json{{"rope_scaling", fields}}; };
  expect_rejected({{"rope_theta", 0}}, {"rope_theta is 0"});
  expect_rejected({{"rope_theta", -1.0}}, {"rope_theta"});
  expect_rejected({{"rope_theta", "10000"}}, {"rope_theta"});
  expect_rejected({{"partial_rotary_factor", 0.05}}, {"partial_rotary_factor 0.05"});
  expect_rejected({{"partial_rotary_factor", 0.2}}, {"rotates 3 dimensions"});
  expect_rejected({{"partial_rotary_factor", 1.5}}, {"partial_rotary_factor"});
  expect_rejected(scaling({{"rope_type", "linear"}}), {"factor is missing", "linear"});
  expect_rejected(scaling({{"rope_type", "linear"}, {"factor", 0.5}}), {"factor is 0.5"});
  expect_rejected(scaling({{"rope_type", "llama3"}, {"factor", 8.0}}), {"low_freq_factor is missing"});
  expect_rejected(
      scaling({{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}}),
      {"high_freq_factor is 4"});
  expect_rejected(scaling({{"rope_type", "longrope"}, {"short_factor", {1, 1}}, {"long_factor", {1, 1}}}),
                  {"short_factor", "8 numbers", "it has 2"});
  expect_rejected(
      scaling({{"rope_type", "longrope"}, {"short_factor", {1, 1, 1, 1, 1, 1, 1, 0}}, {"long_factor", {1}}}),
      {"short_factor[7]"});
  expect_rejected(scaling({{"rope_type", "longrope"}}), {"short_factor is missing"});
  expect_rejected(scaling({{"rope_type", "longrope"}, {"short_factor", 1.0}}), {"short_factor", "8 numbers"});
  for (const Json& bad : {Json("1"), Json(1e31), Json(-1.0), Json(nullptr)})
    expect_rejected(scaling({{"rope_type", "longrope"}, {"short_factor", {1, 1, 1, bad, 1, 1, 1, 1}}}),
                    {"short_factor[3]"});
  expect_rejected(scaling({{"rope_type", "yarn"}, {"factor", 4}, {"beta_fast", 1}, {"beta_slow", 2}}),
                  {"beta_fast"});
  expect_rejected(scaling({{"rope_type", "yarn"}, {"factor", 4}, {"truncate", false}}), {"truncate"});
  expect_rejected(scaling({{"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 0}}),
                  {"original_max_position_embeddings is 0"});
  Json narrow = toy();
  narrow["head_dim"] = 2;
  narrow["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 2}};
  expect_error([&] { parse(narrow); }, {"dynamic", "at least 4"});
}

TEST(RopeConfig, FillsInWhatTransformersFillsIn) {
  Json json = toy();
  json["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}, {"beta_fast", nullptr}};
  EXPECT_EQ(parse(json).rope.original_max_position, 256);
  EXPECT_EQ(parse(json).rope.beta_fast, 32);
  EXPECT_FALSE(parse(json).rope.attention_factor);
  json["rope_scaling"]["mscale"] = 0.5;
  json["rope_scaling"]["mscale_all_dim"] = 2.0;
  // get_mscale(4, 0.5) / get_mscale(4, 2.0), computed in Python.
  EXPECT_NEAR(*parse(json).rope.attention_factor, 0.8371949816203595, 1e-12);
  json["rope_scaling"]["attention_factor"] = 1.25;  // as written
  EXPECT_EQ(parse(json).rope.attention_factor, 1.25);
  json["original_max_position_embeddings"] = 64;  // beside the section it wins
  json["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", nullptr}, {"original_max_position_embeddings", 128}};
  EXPECT_EQ(parse(json).rope.original_max_position, 64);
  EXPECT_EQ(parse(json).rope.factor, 4.0);
  json["rope_scaling"] = Json::object();
  json["rope_parameters"] = Json::object();
  EXPECT_EQ(parse(json).rope.type, "default");
  json["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2}, {"rope_theta", 777.0}};
  EXPECT_EQ(parse(json).rope.theta, 777.0);
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}, {"rope_theta", 777.0}};  // says the same
  EXPECT_EQ(parse(json).rope.type, "linear");
  EXPECT_EQ(parse(json).rotated_dims(), 16);
  json["model_type"] = "phi3";
  const std::vector<double> eight(8, 1.0);
  json["rope_parameters"] = nullptr;
  json["rope_scaling"] = {{"type", "yarn"}, {"short_factor", eight}, {"long_factor", eight}};
  EXPECT_EQ(parse(json).rope.type, "longrope");
}

TEST(GenerationConfig, ReadsTheFile) {
  const TempFolder folder;
  const ModelConfig model = parse(toy());
  const GenerationConfig none = read_generation_config(folder.path(), model);
  EXPECT_FALSE(none.do_sample);
  EXPECT_EQ(none.temperature, 1.0);
  EXPECT_EQ(none.top_k, 0);
  EXPECT_EQ(none.eos_token_ids, std::vector<int64_t>{318});
  auto with = [&](const std::string& text) {
    write_file(folder / "generation_config.json", text);
    return read_generation_config(folder.path(), model);
  };
  const GenerationConfig g = with(
      R"({"do_sample":true,"temperature":0.6,"top_p":0.9,"top_k":20,"repetition_penalty":1.05,"eos_token_id":[7,8],
          "bos_token_id":1,"transformers_version":"4.40.0"})");
  EXPECT_TRUE(g.do_sample);
  EXPECT_EQ(g.temperature, 0.6);
  EXPECT_EQ(g.top_p, 0.9);
  EXPECT_EQ(g.top_k, 20);
  EXPECT_EQ(g.repetition_penalty, 1.05);
  EXPECT_EQ(g.eos_token_ids, (std::vector<int64_t>{7, 8}));
  EXPECT_EQ(with(R"({"eos_token_id":null,"top_k":-1,"temperature":null})").eos_token_ids,
            std::vector<int64_t>{318});
  EXPECT_EQ(with(R"({"top_k":-1})").top_k, 0);
  EXPECT_EQ(with(R"({"min_p":0.05})").min_p, 0.05);
  EXPECT_EQ(none.min_p, 0);
  for (const std::string bad :
       {"", "[]", "{\"temperature\":-1}", "{\"temperature\":\"hot\"}", "{\"top_p\":0}", "{\"top_p\":1.5}",
        "{\"top_k\":-2}", "{\"min_p\":1.5}", "{\"top_k\":1.5}", "{\"repetition_penalty\":0}",
        "{\"eos_token_id\":{}}", "{\"do_sample\":1}", "{\"do_sample\":true,}"})
    expect_error([&] { with(bad); }, {"generation_config.json"});
}

}  // namespace
}  // namespace roundel
