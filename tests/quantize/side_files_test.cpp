#include "quantize/side_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "quantize/recipe_plan.h"
#include "scheme/scheme_text.h"
#include "tests/checkpoint/support.h"
#include "tests/model/tiny_folder.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

TEST(SideFiles, TokenizerTemplatesAndLicencesAreCopied) {
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json",
        "added_tokens.json", "vocab.json", "merges.txt", "tokenizer.model", "chat_template.jinja",
        "qwen.tiktoken", "LICENSE", "LICENSE.md", "NOTICE", "USE_POLICY.md"})
    EXPECT_TRUE(is_side_file(name)) << name;
}

TEST(SideFiles, WeightsIndexesAndOtherQuantizersAreNot) {
  for (const char* name :
       {"model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json",
        "pytorch_model.bin.index.json", "pytorch_model.bin", "consolidated.00.pth", "model.gguf",
        "config.json", "quantize_config.json", "quant_config.json", "hf_quant_config.json", "recipe.yaml",
        "SHA256SUMS", ".gitattributes", ".hidden.json", "README.md", "modeling_x.py"})
    EXPECT_FALSE(is_side_file(name)) << name;
}

TEST(SideFiles, AreWrittenBesideTheWeights) {
  TempFolder temp;
  Json config = tiny_config(8, 2);
  config["compression_config"] = nullptr;
  config["its_own_field"] = {1, "two"};
  write_tiny_folder(temp / "in", config, bigram_tensors({{0, 0}, {0, 0}}));
  write_file(temp / "in" / "tokenizer.json", "{\"not\": \"read\"}");
  write_file(temp / "in" / "LICENSE", "free");
  write_file(temp / "in" / "README.md", "a card of the dense model");
  fs::create_directory(temp / "in" / "folder.json");
  fs::create_directory(temp / "out");
  const ModelFiles files = open_model(temp / "in");
  PlanRequest request;
  request.groups.push_back({"", {"Linear"}, parse_scheme_text("W8A8", "test").scheme});
  request.ignore = {"lm_head"};
  const PlanResult plan = plan_model(files, request);
  write_side_files(files, plan.plan, temp / "out");

  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(temp / "out"))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"LICENSE", "config.json", "recipe.yaml", "tokenizer.json"}));
  EXPECT_EQ(read_file(temp / "out" / "tokenizer.json"), "{\"not\": \"read\"}");
  EXPECT_EQ(read_file(temp / "out" / "LICENSE"), "free");

  Json written = read_json_file(temp / "out" / "config.json");
  EXPECT_FALSE(written.contains("compression_config"));
  EXPECT_EQ(written["quantization_config"]["quant_method"], "compressed-tensors");
  EXPECT_EQ(written["quantization_config"]["ignore"], Json::parse(R"(["lm_head"])"));
  written.erase("quantization_config");
  config.erase("compression_config");
  EXPECT_EQ(written, config);  // nothing else has changed

  const PlanResult again = plan_recipe(files, read_recipe(temp / "out" / "recipe.yaml")).result;
  ASSERT_TRUE(again.problems.empty());
  for (const PlanEntry& e : plan.plan.entries) {
    const PlanEntry* other = again.plan.find(e.module.name);
    ASSERT_TRUE(other) << e.module.name;
    EXPECT_EQ(describe(*other), describe(e)) << e.module.name;
  }
}

}  // namespace
}  // namespace roundel
