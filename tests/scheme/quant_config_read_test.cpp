#include <gtest/gtest.h>

#include "scheme/quant_config.h"
#include "tests/scheme/scheme_test_util.h"

namespace roundel {
namespace {

Json section_of(Json changes = Json::object()) {
  Json section = {
      {"quant_method", "compressed-tensors"},
      {"format", "pack-quantized"},
      {"version", "0.9.4"},
      {"ignore", {"lm_head"}},
      {"config_groups",
       {{"group_0", {{"targets", {"Linear"}}, {"weights", {{"num_bits", 4}, {"group_size", 128}}}}}}}};
  section.update(changes);
  return section;
}

Json config_of(Json changes = Json::object()) {
  return Json{{"quantization_config", section_of(std::move(changes))}};
}

QuantConfig read(const Json& config) {
  return read_quant_config(config, "config.json").value();
}

std::string refusal(const Json& config) {
  return error_of([&] { read_quant_config(config, "config.json"); });
}

Json group(Json changes) {
  Json g = {{"targets", {"Linear"}}, {"weights", {{"num_bits", 4}, {"group_size", 128}}}};
  g.update(changes);
  return Json{{"config_groups", {{"group_0", g}}}};
}

TEST(QuantConfig, IsAbsentFromADenseModel) {
  EXPECT_FALSE(read_quant_config(Json{{"model_type", "llama"}}, "config.json").has_value());
  EXPECT_FALSE(read_quant_config(Json{{"quantization_config", nullptr}}, "config.json").has_value());
}

TEST(QuantConfig, ReadsWhatTheOriginalWrote) {
  const Json stored = fixture("stored_configs.json");
  ASSERT_GT(stored.size(), 30u);
  for (const auto& item : stored.items()) {
    const QuantConfig config = read(Json{{"quantization_config", item.value()}});
    EXPECT_EQ(config.format, item.value()["format"]) << item.key();
    EXPECT_EQ(config.version, item.value()["version"]) << item.key();
    EXPECT_EQ(config.groups.size(), item.value()["config_groups"].size()) << item.key();
    EXPECT_EQ(config.kv_cache.has_value(), item.key() == "w8a8_kv_fp8") << item.key();
    for (const SchemeGroup& g : config.groups) {
      Json written = item.value()["config_groups"][g.name];
      EXPECT_EQ(g.scheme.format, written["format"]);
      EXPECT_EQ(Json(g.targets), written["targets"]);
      if (config.version != "0.20.1") continue;  // 0.18 wrote more keys
      EXPECT_EQ(to_json(*g.scheme.weights), written["weights"]) << item.key();
      EXPECT_EQ(g.scheme.input ? to_json(*g.scheme.input) : Json(), written["input_activations"])
          << item.key();
    }
    EXPECT_TRUE(make_plan(llama_modules(2), config.request("config.json")).problems.empty()) << item.key();
  }
}

TEST(QuantConfig, ReadsOlderPlacesAndSpellings) {
  const QuantConfig now = read(config_of());
  EXPECT_EQ(now.groups[0].scheme.weights->group_size, 128);
  EXPECT_EQ(now.version, "0.9.4");
  for (const Json& config :
       {Json{{"compression_config", section_of()}}, Json{{"text_config", config_of()}},
        Json{{"compression_config", {{"version", "0.9.4"}, {"quantization_config", section_of()}}}},
        config_of({{"sparsity_config",
                    {{"format", "dense"}, {"global_sparsity", 0.1}, {"sparsity_structure", "unstructured"}}},
                   {"run_compressed", true},
                   {"transform_config", Json::object()},
                   {"something_new", 3}})}) {
    const QuantConfig old = read(config);
    EXPECT_EQ(old.groups[0].scheme, now.groups[0].scheme) << config;
    EXPECT_EQ(old.ignore, now.ignore);
    EXPECT_EQ(old.version, now.version);
  }
  const QuantConfig block = read(config_of(
      {{"format", "float-quantized"},
       {"config_groups",
        {{"g",
          {{"targets", {"Linear"}},
           {"weights", {{"type", "float"}, {"strategy", "block"}, {"block_structure", "128x64"}}}}}}}}));
  EXPECT_EQ(block.groups[0].scheme.weights->block_cols, 64);
}

TEST(QuantConfig, ReadsPresetNameGroups) {
  const QuantConfig config =
      read(config_of({{"format", "mixed-precision"},
                      {"config_groups", {{"W4A16", {"re:.*mlp.*"}}, {"FP8_DYNAMIC", {"re:.*attn.*"}}}}}));
  ASSERT_EQ(config.groups.size(), 2u);
  EXPECT_EQ(config.groups[0].name, "FP8_DYNAMIC");
  EXPECT_EQ(config.groups[0].scheme.format, "float-quantized");
  EXPECT_EQ(config.groups[1].scheme.format, "pack-quantized");
  EXPECT_TRUE(
      contains(refusal(config_of({{"config_groups", {{"W4B16", {"Linear"}}}}})), "unknown scheme \"W4B16\""));
  EXPECT_TRUE(contains(refusal(config_of({{"config_groups", {{"NVFP4", {"Linear"}}}}})), "NVFP4"));
}

TEST(QuantConfig, FillsInFormats) {
  const Json token = {{"strategy", "token"}, {"dynamic", true}};
  // The group's own name wins, then the model's, then the original's rule (a byte per value for W4A8).
  EXPECT_EQ(read(config_of(group({{"format", "naive-quantized"}}))).groups[0].scheme.format,
            "naive-quantized");
  EXPECT_EQ(read(config_of(group({{"input_activations", token}}))).groups[0].scheme.format, "pack-quantized");
  for (const char* model : {"mixed-precision", "fakequant"}) {
    Json changes = group({{"input_activations", token}});
    changes["format"] = model;
    EXPECT_EQ(read(config_of(changes)).groups[0].scheme.format, "int-quantized") << model;
  }
  Json wrong = group(Json::object());
  wrong["format"] = "float-quantized";
  EXPECT_TRUE(contains(refusal(config_of(wrong)), "format \"float-quantized\" cannot hold W4A16 g128"));
  wrong["format"] = "dense";
  EXPECT_TRUE(contains(refusal(config_of(wrong)), "uncompressed"));
}

TEST(QuantConfig, RefusesOtherMethodsByName) {
  for (const char* method : {"gptq", "awq", "fp8", "bitsandbytes", "modelopt", "mystery"}) {
    // Their sections may look like ours: the method decides before anything else is read.
    const std::string error =
        refusal(config_of({{"quant_method", method}, {"config_groups", 3}, {"kv_cache_scheme", "FP8"}}));
    EXPECT_TRUE(contains(error, fmt::format("quant_method is \"{}\"", method)) &&
                contains(error, "compressed-tensors"))
        << error;
  }
  EXPECT_TRUE(contains(refusal(Json{{"quantization_config", {{"bits", 4}}}}), "quant_method is missing"));
}

TEST(QuantConfig, RefusesByNameWhatItCannotRead) {
  const std::pair<Json, const char*> cases[] = {
      {{{"format", "zip-quantized"}}, "zip-quantized"},
      {{{"format", "marlin-24"}}, "marlin-24"},
      {{{"format", "sparse-24-bitmask"}}, "sparse-24-bitmask"},
      {{{"sparsity_config", {{"format", "sparse-bitmask"}}}},
       "sparsity_config.format: format \"sparse-bitmask\""},
      {{{"format", "nvfp4-pack-quantized"}}, "NVFP4"},
      {{{"format", "mxfp8-quantized"}}, "MXFP8"},
      {group({{"format", "mxfp4-pack-quantized"}}), "MXFP4"},
      {group({{"weights", {{"num_bits", 11}}}}),
       "config_groups.group_0.weights: num_bits 11 is not supported"},
      {group({{"output_activations", {{"dynamic", true}, {"strategy", "token"}}}}), "output_activations"},
      {group({{"wieghts", nullptr}}), "unknown key \"wieghts\"; did you mean \"weights\"?"},
      {group({{"weights", {{"num_bits", "four"}}}}), "num_bits is \"four\""},
      {{{"moe_sparsity_config", {{"method", "prune"}}}}, "moe_sparsity_config"},
      {{{"kv_cache_scheme", "FP8"}}, "kv_cache_scheme"},
      {{{"kv_cache_scheme", {{"bits", 8}}}}, "kv_cache_scheme: unknown key \"bits\""},
      {{{"ignore", "lm_head"}}, "ignore is \"lm_head\""},
      {{{"ignore", {1}}}, "ignore holds 1"},
      {{{"config_groups", nullptr}}, "config_groups is missing"},
      {{{"config_groups", 7}}, "config_groups is 7"},
      {{{"config_groups", {{"group_0", 7}}}}, "config_groups.group_0: expected an object"},
      {{{"transform_config", 7}}, "transform_config is 7"},
  };
  for (const auto& [changes, part] : cases) {
    const std::string error = refusal(config_of(changes));
    EXPECT_TRUE(contains(error, part) && error.starts_with("config.json: quantization_config"))
        << part << ": " << error;
  }
  EXPECT_TRUE(contains(refusal(Json{{"quantization_config", 4}}), "expected an object"));
  EXPECT_TRUE(contains(
      refusal(Json{{"compression_config", {{"sparsity_config", {{"format", "sparse-24-bitmask"}}}}}}),
      "sparse-24-bitmask"));
}

TEST(QuantConfig, RefusesTransformsThatRunOnline) {
  auto with = [](const char* location) {
    return config_of(
        {{"transform_config",
          {{"config_groups",
            {{"R1",
              {{"type", "hadamard"}, {"apply", {{{"targets", {"Linear"}}, {"location", location}}}}}}}}}}});
  };
  EXPECT_EQ(refusal(with("weight_input")), "");
  EXPECT_EQ(refusal(with("weight_output")), "");
  for (const char* location : {"input", "output", "k_cache", "q_attn"})
    EXPECT_TRUE(
        contains(refusal(with(location)), fmt::format("location \"{}\" run with every forward", location)));
  EXPECT_TRUE(contains(refusal(with("sideways")), "unknown location \"sideways\""));
  EXPECT_NE(refusal(config_of({{"transform_config", {{"config_groups", {{"R1", 3}}}}}})), "");
}

TEST(QuantConfig, HandsTheKvCacheToThePlan) {
  const QuantConfig config =
      read(config_of({{"kv_cache_scheme", {{"type", "float"}, {"strategy", "tensor"}}}}));
  ASSERT_TRUE(config.kv_cache.has_value());
  const PlanResult result = make_plan(llama_modules(1), config.request("config.json"));
  EXPECT_EQ(result.plan.kv_cache, config.kv_cache);
}

}  // namespace
}  // namespace roundel
