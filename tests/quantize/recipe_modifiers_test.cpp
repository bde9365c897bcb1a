// Recipes of llm-compressor: what each modifier's options mean, and how they are refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "model/model_files.h"
#include "quantize/recipe_plan.h"

namespace roundel {
namespace {

std::string stage(const std::string& modifiers) {
  return "quant_stage:\n  quant_modifiers:\n" + modifiers;
}

// The message of the error that reading throws; "" when it does not.
std::string refusal(const std::string& text, const std::string& name = "r.yaml") {
  try {
    parse_recipe(text, name);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
}

ModelFiles tiny() {
  return open_model(std::filesystem::path(ROUNDEL_TEST_DATA) / "golden" / "dense" / "tiny_llama");
}

TEST(Recipe, ReadsGptqWithItsDefaults) {
  const Recipe r =
      parse_recipe(stage("    GPTQModifier:\n      scheme: W4A16\n      ignore: [lm_head]\n"), "r.yaml");
  ASSERT_EQ(r.modifiers.size(), 1u);
  const auto& gptq = std::get<GptqStep>(*r.modifiers[0].quantize);
  EXPECT_EQ(gptq.block_size, 128);
  EXPECT_EQ(gptq.dampening_frac, 0.01);
  ASSERT_TRUE(r.modifiers[0].request);
  EXPECT_EQ(r.modifiers[0].request->ignore, std::vector<std::string>{"lm_head"});
  EXPECT_EQ(r.modifiers[0].request->groups[0].scheme.weights->actorder, ActOrder::kStatic);
}

TEST(Recipe, ReadsGptqOptionsOldAndNew) {
  const Recipe r = parse_recipe(stage(R"(    GPTQModifier:
      sequential_update: true
      offload_hessians: true
      batched_quantization: auto
      block_size: 64
      dampening_frac: 0.001
      actorder: null
      config_groups:
        group_0:
          targets: ["re:.*q_proj"]
          weights: {num_bits: 8, type: int, symmetric: true, strategy: group, group_size: 32, observer: static-minmax}
          input_activations: {num_bits: 8, strategy: tensor, observer: MSE, observer_kwargs: {maxshrink: 0.1, grid: 20}}
)"),
                                "r.yaml");
  const auto& gptq = std::get<GptqStep>(*r.modifiers[0].quantize);
  EXPECT_EQ(gptq.block_size, 64);
  EXPECT_EQ(gptq.dampening_frac, 0.001);
  const SchemeGroup& g = r.modifiers[0].request->groups[0];
  EXPECT_EQ(g.targets, std::vector<std::string>{"re:.*q_proj"});
  EXPECT_EQ(g.scheme.weights->actorder, ActOrder::kNone);
  EXPECT_EQ(g.scheme.weights->observer, "memoryless_minmax");
  EXPECT_EQ(g.scheme.input->observer, "mse");
  EXPECT_EQ(g.scheme.weights->group_size, 32);
}

TEST(Recipe, ReadsSmoothQuantMappings) {
  const Recipe r = parse_recipe(stage(R"(    SmoothQuantModifier:
      smoothing_strength: 0.8
      num_calibration_steps: 512
      mappings:
        - [["re:.*q_proj", "re:.*k_proj", "re:.*v_proj"], "re:.*input_layernorm"]
        - !!python/tuple
          - ["re:.*gate_proj", "re:.*up_proj"]
          - re:.*post_attention_layernorm
      ignore: [model.layers.0.input_layernorm]
    QuantizationModifier: {scheme: W8A8}
)"),
                                "r.yaml");
  const auto& smooth = std::get<SmoothQuantStep>(*r.modifiers[0].smooth);
  EXPECT_EQ(smooth.strength, 0.8);
  ASSERT_EQ(smooth.mappings.size(), 2u);
  EXPECT_EQ(smooth.mappings[0].smooth, "re:.*input_layernorm");
  EXPECT_EQ(smooth.mappings[0].balance.size(), 3u);
  EXPECT_EQ(smooth.mappings[1].smooth, "re:.*post_attention_layernorm");
  EXPECT_EQ(smooth.ignore, std::vector<std::string>{"model.layers.0.input_layernorm"});
}

TEST(Recipe, ReadsAStrengthThatIsSearched) {
  const Recipe r = parse_recipe(stage("    SmoothQuantModifier: {smoothing_strength: auto}\n"
                                      "    QuantizationModifier: {scheme: W8A8}\n"),
                                "r.yaml");
  EXPECT_FALSE(std::get<SmoothQuantStep>(*r.modifiers[0].smooth).strength.has_value());
}

TEST(Recipe, LogarithmicEqualizationIsAnotherName) {
  const Recipe r = parse_recipe(
      stage("    LogarithmicEqualizationModifier: {}\n    QuantizationModifier: {scheme: W8A8}\n"), "r.yaml");
  EXPECT_EQ(std::get<SmoothQuantStep>(*r.modifiers[0].smooth).algorithm, SmoothAlgorithm::kLogEqualization);
}

TEST(Recipe, ReadsAwqNewAndOld) {
  const Recipe now = parse_recipe(stage(R"(    AWQModifier:
      duo_scaling: both
      n_grid: 10
      mappings:
        - smooth_layer: re:.*input_layernorm$
          balance_layers: ["re:.*q_proj$", "re:.*k_proj$"]
          activation_hook_target: null
    QuantizationModifier: {scheme: W4A16_ASYM, ignore: lm_head}
)"),
                                  "r.yaml");
  ASSERT_EQ(now.modifiers.size(), 2u);
  const auto& awq = std::get<AwqStep>(*now.modifiers[0].smooth);
  EXPECT_EQ(awq.duo_scaling, DuoScaling::kBoth);
  EXPECT_EQ(awq.n_grid, 10);
  EXPECT_EQ(awq.mappings[0].balance.size(), 2u);
  EXPECT_FALSE(now.modifiers[0].quantize);

  const Recipe old = parse_recipe(
      stage("    AWQModifier: {scheme: W4A16_ASYM, ignore: [lm_head], duo_scaling: false}\n"), "r.yaml");
  ASSERT_EQ(old.modifiers.size(), 1u);
  EXPECT_EQ(std::get<AwqStep>(*old.modifiers[0].smooth).duo_scaling, DuoScaling::kOff);
  EXPECT_TRUE(std::holds_alternative<RtnStep>(*old.modifiers[0].quantize));
  EXPECT_EQ(old.modifiers[0].request->ignore, std::vector<std::string>{"lm_head"});
}

TEST(Recipe, ReadsObserversWhereverTheyAreGiven) {
  const Recipe r = parse_recipe(stage(R"(    QuantizationModifier:
      scheme: FP8
      input_observer: Mse
      weight_observer: static-minmax
      kv_cache_scheme: {num_bits: 8, type: float, strategy: tensor, dynamic: false, symmetric: true}
)"),
                                "r.yaml");
  const PlanRequest& request = *r.modifiers[0].request;
  EXPECT_EQ(request.groups[0].scheme.input->observer, "mse");
  EXPECT_EQ(request.groups[0].scheme.weights->observer, "memoryless_minmax");
  ASSERT_TRUE(request.kv_cache);
  EXPECT_EQ(request.kv_cache->observer, "");

  const Recipe map =
      parse_recipe(stage("    QuantizationModifier: {scheme: FP8, observer: {input: minmax}}\n"), "r.yaml");
  EXPECT_EQ(map.modifiers[0].request->groups[0].scheme.input->observer, "minmax");
}

TEST(Recipe, ReadsTheTagsOfTheOriginalsOwnFiles) {
  const Recipe r = parse_recipe(stage(R"(    GPTQModifier:
      config_groups:
        group_0:
          targets: [Linear]
          weights:
            num_bits: 4
            strategy: group
            group_size: 32
            actorder: !!python/object/apply:compressed_tensors.quantization.quant_args.ActivationOrdering [
              static]
)"),
                                "r.yaml");
  EXPECT_EQ(r.modifiers[0].request->groups[0].scheme.weights->actorder, ActOrder::kStatic);
  expect_words(refusal("a: !!python/object/apply:os.system [ls]\n"),
               {"line 1", "python/object/apply:os.system"});
  expect_words(refusal("a: !!python/object/apply:compressed_tensors.quantization.X [a, b]\n"),
               {"line 1", "one word"});
}

TEST(Recipe, NamesKeyLineAndNearestName) {
  expect_words(refusal(stage("    GPTQModifier:\n      scheme: W4A16\n      block_sise: 64\n")),
               {"line 5", "block_sise", "block_size"});
  expect_words(refusal(stage("    GPTQModifer: {scheme: W4A16}\n")),
               {"line 3", "GPTQModifer", "GPTQModifier"});
  expect_words(refusal(stage("    AutoRoundModifier: {scheme: W4A16}\n")),
               {"line 3", "AutoRoundModifier", "not supported"});
  expect_words(refusal(stage("    GPTQModifier:\n      config_groups:\n        g:\n          weights:\n"
                             "            num_bits: 4\n            stratgy: group\n")),
               {"line 8", "stratgy", "strategy"});
  expect_words(refusal(stage("    SmoothQuantModifier:\n      smoothing_strenght: 0.5\n")),
               {"line 4", "smoothing_strenght", "smoothing_strength"});
  expect_words(refusal(stage("    SmoothQuantModifier:\n      zzz: 0.5\n")),
               {"line 4", "zzz", "known: smoothing_strength, mappings"});
}

// Not the line of the modifier, but that of the arguments or of the observer's name.
TEST(Recipe, NamesTheLineOfAGroupsArguments) {
  const auto group = [](const std::string& weights, const std::string& input) {
    return refusal(stage("    GPTQModifier:\n      config_groups:\n        g0:\n          weights: " +
                         weights + "\n          input_activations: " + input + "\n"));
  };
  expect_words(group("{num_bits: 4, group_size: 32, actorder: group}", "null"),
               {"line 6", "g0.weights", "actorder", "0.19"});
  expect_words(group("{num_bits: 8, observer: minmx}", "null"), {"line 6", "g0.weights", "minmx", "minmax"});
  expect_words(group("{num_bits: 8}", "{num_bits: 8, observer: mse, observer_kwargs: {maxshrnk: 0.2}}"),
               {"line 7", "g0.input_activations", "maxshrnk", "maxshrink"});
  expect_words(group("{num_bits: 8}", "{num_bits: 8, observer_kwargs: {maxshrink: 0.2}}"),
               {"line 7", "maxshrink", "of minmax", "averaging_constant"});
  expect_words(
      refusal(stage("    QuantizationModifier:\n      scheme: FP8\n      observer:\n        input: minmx\n")),
      {"line 6", "minmx", "did you mean \"minmax\""});
}

TEST(Recipe, RefusesValuesThatCannotBe) {
  const auto gptq = [](const std::string& option) {
    return refusal(stage("    GPTQModifier:\n      scheme: W4A16\n      " + option + "\n"));
  };
  expect_words(gptq("block_size: 0"), {"line 5", "block_size", "\"0\""});
  expect_words(gptq("block_size: 12.5"), {"block_size", "integer"});
  expect_words(gptq("dampening_frac: -1"), {"dampening_frac", "number from 0"});
  expect_words(gptq("dampening_frac: .nan"), {"dampening_frac"});
  expect_words(gptq("actorder: group"), {"line 5", "actorder", "0.19", "static"});
  expect_words(gptq("actorder: statik"), {"actorder", "did you mean \"static\""});
  expect_words(gptq("start: 0.5"), {"start", "training"});
  expect_words(gptq("observer: {weights: minmax, inputs: minmax}"), {"inputs", "did you mean \"input\""});
  expect_words(gptq("observer: mse"), {"observer", "\"mse\"", "{weights: mse"});
  expect_words(gptq("weight_observer: imatrix_mse"), {"imatrix_mse", "not supported"});
  expect_words(gptq("weight_observer: minmx"), {"minmx", "did you mean \"minmax\""});
  const auto smooth = [](const std::string& option) {
    return refusal(
        stage("    SmoothQuantModifier:\n      " + option + "\n    QuantizationModifier: {scheme: W8A8}\n"));
  };
  expect_words(smooth("smoothing_strength: 1.5"), {"line 4", "smoothing_strength", "1.5"});
  expect_words(smooth("algorithm: smothquant"), {"smothquant", "did you mean \"smoothquant\""});
  expect_words(smooth("mappings: [[re:a, re:b, re:c]]"), {"mapping"});
  expect_words(smooth("mappings: [[[], re:b]]"), {"mapping"});
  expect_words(smooth("mappings: []"), {"mappings", "empty"});
  expect_words(smooth("calibration_function: f"), {"calibration_function"});
}

TEST(Recipe, ActorderOfGroupAndModifierMustAgree) {
  const std::string group =
      "      config_groups: {g: {weights: {num_bits: 4, strategy: group, group_size: 32, actorder: "
      "static}}}\n";
  expect_words(refusal(stage("    GPTQModifier:\n      actorder: null\n" + group)), {"actorder", "keep one"});
  EXPECT_EQ(refusal(stage("    GPTQModifier:\n      actorder: weight\n" + group)), "");
}

TEST(Recipe, RefusesContradictions) {
  expect_words(refusal(stage("    QuantizationModifier: {scheme: W8A8}\n    SmoothQuantModifier: {}\n")),
               {"line 4", "SmoothQuantModifier", "after", "line 3"});
  expect_words(refusal(stage("    AWQModifier: {}\n")), {"AWQModifier", "nothing after it quantizes"});
  expect_words(refusal(stage("    GPTQModifier: {block_size: 64}\n")), {"GPTQModifier", "scheme"});
  expect_words(refusal(stage("    QuantizationModifier: {scheme: W8A8, config_groups: {}}\n")),
               {"exclude each other"});
  expect_words(refusal("train_stage:\n  run_type: train\n"), {"line 2", "run_type", "oneshot"});
  const Recipe twice = parse_recipe(stage("    QuantizationModifier: {scheme: W8A8, ignore: [lm_head]}\n    "
                                          "GPTQModifier: {scheme: W4A16, ignore: "
                                          "[lm_head]}\n"),
                                    "r.yaml");
  const RecipePlan plan = plan_recipe(tiny(), twice);
  ASSERT_EQ(plan.result.problems.list().size(), 1u);
  expect_words(plan.result.problems.list()[0].message, {"line 3", "line 4", "both quantize"});
}

TEST(Recipe, KeepsLinesInMarkdownAndTabsInJson) {
  expect_words(
      refusal("---\nquant_stage:\n  quant_modifiers:\n    GPTQModifer: {}\n---\n# Card\n", "card.md"),
      {"card.md: line 4", "GPTQModifer"});
  expect_words(refusal("\n\n---\nquant_stage:\n  quant_modifiers:\n    GPTQModifer: {}\n---\n", "card.md"),
               {"line 6"});
  const Recipe r = parse_recipe(
      "{\n\t\"q_stage\": {\n\t\t\"q_modifiers\": {\n\t\t\t\"QuantizationModifier\": {\"scheme\": "
      "\"W8A8\"}}}}",
      "r.json");
  EXPECT_EQ(r.modifiers.size(), 1u);
}

// Every cut, and every byte replaced, gives a recipe or an Error.
TEST(Recipe, SurvivesDamage) {
  const std::string good = stage(R"(    SmoothQuantModifier: {mappings: [[["re:.*q_proj"], "re:.*norm"]]}
    GPTQModifier:
      ignore: &a [lm_head]
      targets: *a
      scheme: W4A16
)");
  ASSERT_EQ(refusal(good), "");
  size_t refused = 0;
  configure_log({.level = LogLevel::kError});
  for (size_t i = 0; i < good.size(); ++i) {
    refused += !refusal(good.substr(0, i)).empty();
    for (const char c : {'\0', '\t', '\n', '{', ']', '"', '&', '*', '!', ':', '\xff'}) {
      std::string bad = good;
      bad[i] = c;
      refused += !refusal(bad).empty();
    }
  }
  configure_log({});
  EXPECT_GT(refused, good.size());
}

TEST(RecipePlan, SeveralModifiersShareTheModel) {
  const Recipe r = parse_recipe(R"(
a_stage:
  a_modifiers:
    QuantizationModifier: {scheme: W8A8, targets: ["re:.*self_attn.*"]}
b_stage:
  b_modifiers:
    GPTQModifier: {scheme: {W4A16: ["re:.*mlp.*"]}, dampening_frac: 0.1}
)",
                                "r.yaml");
  const RecipePlan plan = plan_recipe(tiny(), r);
  EXPECT_TRUE(plan.result.problems.empty());
  EXPECT_EQ(plan.result.plan.find("model.layers.0.self_attn.q_proj")->scheme.weights->num_bits, 8);
  EXPECT_EQ(plan.result.plan.find("model.layers.1.mlp.down_proj")->scheme.weights->num_bits, 4);
  ASSERT_EQ(plan.steps.size(), 2u);
  EXPECT_EQ(std::get<RtnStep>(plan.steps[0]).targets.size(), 8u);
  EXPECT_EQ(std::get<GptqStep>(plan.steps[1]).targets.size(), 6u);
  expect_words(plan.needs_calibration, {"line 7", "GPTQModifier"});
}

TEST(RecipePlan, GptqWithoutSchemeTakesTheModulesBeforeIt) {
  const Recipe r =
      parse_recipe(stage("    QuantizationModifier: {scheme: W4A16, ignore: [lm_head]}\n"
                         "    GPTQModifier: {targets: [\"re:.*mlp.*\"], sequential_update: false}\n"),
                   "r.yaml");
  const RecipePlan plan = plan_recipe(tiny(), r);
  EXPECT_TRUE(plan.result.problems.empty());
  EXPECT_EQ(std::get<GptqStep>(plan.steps.back()).targets.size(), 6u);
  EXPECT_EQ(plan.result.plan.find("model.layers.0.mlp.up_proj")->scheme.weights->actorder, ActOrder::kStatic);
  EXPECT_EQ(plan.result.plan.find("model.layers.0.self_attn.q_proj")->scheme.weights->actorder,
            ActOrder::kNone);
}

TEST(RecipePlan, SaysWhatNeedsCalibration) {
  const ModelFiles files = tiny();
  const auto needs = [&](const std::string& modifier) {
    return plan_recipe(files, parse_recipe(stage("    " + modifier + "\n"), "r.yaml")).needs_calibration;
  };
  EXPECT_EQ(needs("QuantizationModifier: {scheme: W8A8}"), "");
  expect_words(needs("QuantizationModifier: {scheme: FP8}"), {"static activations"});
  expect_words(needs("QuantizationModifier: {scheme: W8A8, kv_cache_scheme: {type: float}}"), {"key/value"});
}

TEST(RecipePlan, ScalesOfTheCacheAloneAreAPlan) {
  const Recipe r =
      parse_recipe(stage("    QuantizationModifier: {kv_cache_scheme: {type: float}}\n"), "r.yaml");
  const RecipePlan plan = plan_recipe(tiny(), r);
  EXPECT_TRUE(plan.result.problems.empty());
  EXPECT_TRUE(plan.steps.empty());
  ASSERT_TRUE(plan.result.plan.kv_cache);
  Calibration calibration;
  const Recipe again = parse_recipe(write_recipe(plan.result.plan, &calibration), "saved.yaml");
  EXPECT_EQ(again.modifiers[0].request->kv_cache, plan.result.plan.kv_cache);
}

TEST(RecipePlan, DuoScalingNeedsScalesPerChannel) {
  const Recipe r = parse_recipe(
      stage("    AWQModifier: {}\n    QuantizationModifier: {scheme: FP8, ignore: [lm_head]}\n"), "r.yaml");
  const RecipePlan plan = plan_recipe(tiny(), r);
  ASSERT_EQ(plan.result.problems.list().size(), 1u);
  expect_words(plan.result.problems.list()[0].message, {"duo_scaling"});
}

TEST(Recipe, ReadsRotations) {
  const std::string rtn = "    QuantizationModifier: {scheme: W8A8, ignore: [lm_head]}\n";
  const auto rotation = [&](const std::string& options) {
    return rotation_of(parse_recipe(stage("    SpinQuantModifier: {" + options + "}\n" + rtn), "r.yaml"));
  };
  EXPECT_EQ(rotation_of(parse_recipe(stage(rtn), "r.yaml")), Rotation{});
  EXPECT_EQ(rotation(""), (Rotation{true, true}));  // llm-compressor's default
  EXPECT_EQ(rotation("rotations: [r1], transform_type: random-hadamard"), (Rotation{true, false}));
  EXPECT_EQ(rotation("rotations: [R2], randomize: false, precision: float64"), (Rotation{false, true}));
  const auto refused = [&](const std::string& options) {
    return refusal(stage("    SpinQuantModifier: {" + options + "}\n" + rtn));
  };
  expect_words(refused("rotations: [R1, R4]"), {"line 3", "R4 rotates activations while the model runs"});
  expect_words(refused("rotations: []"), {"rotations", "expected R1, R2"});
  expect_words(refused("transform_type: random-matrix"), {"line 3", "hadamard"});
  expect_words(refused("transform_block_size: 64"), {"transform_block_size"});
  expect_words(refused("learnable: true"), {"learnable"});
  expect_words(refused("rotation: [R1]"), {"rotations"});
  const std::string spin = "    SpinQuantModifier: {}\n";
  expect_words(refusal(stage(rtn + spin)), {"SpinQuantModifier", "comes after", "put it first"});
  expect_words(refusal(stage("    SmoothQuantModifier: {}\n" + spin + rtn)), {"comes after", "put it first"});
  expect_words(refusal(stage(spin)), {"nothing after it quantizes"});
  expect_words(refusal(stage(spin) + "  b_modifiers:\n" + spin + rtn), {"name all rotations in one"});
}

TEST(RecipePlan, ARotationNeedsNoCalibrationAndIsWritten) {
  const ModelFiles files = tiny();
  const Recipe r = parse_recipe(stage("    SpinQuantModifier: {rotations: [R1]}\n"
                                      "    QuantizationModifier: {scheme: W8A8, ignore: [lm_head]}\n"),
                                "r.yaml");
  const RecipePlan plan = plan_recipe(files, r);
  EXPECT_EQ(plan.needs_calibration, "");
  EXPECT_TRUE(plan.steps.size() == 1 && std::holds_alternative<RtnStep>(plan.steps[0]));
  const std::string text = write_recipe(plan.result.plan, nullptr, rotation_of(r));
  EXPECT_EQ(rotation_of(parse_recipe(text, "saved.yaml")), rotation_of(r)) << text;
}

// What is written beside the weights leads to the same plan and steps when it is run again.
TEST(RecipePlan, WrittenRecipeSaysTheSame) {
  const ModelFiles files = tiny();
  const Recipe r = parse_recipe(
      stage(
          R"(    SmoothQuantModifier: {smoothing_strength: 0.8, mappings: [[[re:.*q_proj], re:.*input_layernorm]]}
    AWQModifier: {n_grid: 7, duo_scaling: both}
    QuantizationModifier:
      config_groups:
        a: {targets: ["re:.*q_proj", "re:.*k_proj", "re:.*v_proj"], weights: {num_bits: 8, strategy: channel},
            input_activations: {num_bits: 8, strategy: tensor, observer: static_minmax}}
      kv_cache_scheme: {type: float, strategy: tensor}
    GPTQModifier: {scheme: {W4A16: ["re:.*mlp.*"]}, block_size: 64, actorder: null}
)"),
      "r.yaml");
  const RecipePlan once = plan_recipe(files, r);
  ASSERT_TRUE(once.result.problems.empty());
  Calibration calibration;
  calibration.steps = once.steps;
  calibration.samples_text = R"({"file": "a.txt", "tokens": 12})";
  const std::string text = write_recipe(once.result.plan, &calibration);
  expect_words(text, {"a.txt"});
  const RecipePlan again = plan_recipe(files, parse_recipe(text, "saved.yaml"));
  ASSERT_TRUE(again.result.problems.empty()) << again.result.problems.list()[0].message << "\n" << text;
  for (size_t i = 0; i < once.result.plan.entries.size(); ++i)
    EXPECT_EQ(once.result.plan.entries[i].scheme, again.result.plan.entries[i].scheme)
        << once.result.plan.entries[i].module.name << "\n"
        << text;
  EXPECT_EQ(once.result.plan.kv_cache, again.result.plan.kv_cache);
  ASSERT_EQ(again.steps.size(), once.steps.size()) << text;
  EXPECT_EQ(std::get<SmoothQuantStep>(again.steps[0]).strength, 0.8);
  EXPECT_EQ(std::get<SmoothQuantStep>(again.steps[0]).mappings[0].balance,
            std::vector<std::string>{"re:.*q_proj"});
  EXPECT_EQ(std::get<AwqStep>(again.steps[1]).n_grid, 7);
  EXPECT_EQ(std::get<AwqStep>(again.steps[1]).duo_scaling, DuoScaling::kBoth);
  EXPECT_EQ(std::get<RtnStep>(again.steps[2]).targets, std::get<RtnStep>(once.steps[2]).targets);
  EXPECT_EQ(std::get<GptqStep>(again.steps[3]).targets, std::get<GptqStep>(once.steps[3]).targets);
  EXPECT_EQ(std::get<GptqStep>(again.steps[3]).block_size, 64);
}

}  // namespace
}  // namespace roundel
