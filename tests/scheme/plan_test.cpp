#include "scheme/plan.h"

#include <gtest/gtest.h>

#include "scheme/quant_config.h"
#include "tests/scheme/scheme_test_util.h"

namespace roundel {
namespace {

constexpr char kUp0[] = "model.layers.0.mlp.up_proj";
constexpr char kDown1[] = "model.layers.1.mlp.down_proj";

PlanRequest request_of(std::vector<SchemeGroup> groups, std::vector<std::string> ignore = {}) {
  return {.groups = std::move(groups), .ignore = std::move(ignore), .default_ignore = {"lm_head"}};
}

std::string shown(const PlanResult& result, const std::string& module) {
  return describe(*result.plan.find(module));
}

std::string problems_of(const PlanResult& result) {
  return error_of([&] { result.problems.throw_if_any("problems"); });
}

TEST(Plan, GivesEveryLinearTheScheme) {
  const PlanResult result = make_plan(llama_modules(2), request_of({{"", {"Linear"}, preset("W4A16")}}));
  EXPECT_TRUE(result.problems.empty()) << problems_of(result);
  EXPECT_TRUE(result.warnings.empty());
  EXPECT_EQ(result.plan.entries.size(), llama_modules(2).size());
  EXPECT_EQ(shown(result, kUp0), "W4A16 g128");
  EXPECT_EQ(result.plan.find(kUp0)->scheme.format, "pack-quantized");
  EXPECT_EQ(shown(result, "lm_head"), "BF16");
  EXPECT_TRUE(result.plan.find("lm_head")->ignored);
  EXPECT_EQ(result.plan.find("lm_head")->note, "ignored by lm_head");
  EXPECT_EQ(shown(result, "model.embed_tokens"), "BF16");
  EXPECT_EQ(result.plan.find("model.embed_tokens")->note, "no target");
  EXPECT_EQ(result.plan.find("nothing"), nullptr);
  EXPECT_TRUE(result.plan.any_quantized());
}

// Every module of 60 random configs, against the library itself.
TEST(Plan, MatchesStoredTargetsAsTheOriginalDoes) {
  const Json cases = fixture("matching.json");
  ASSERT_GE(cases.size(), 60u);
  for (const Json& c : cases) {
    PlanRequest request{.groups = parse_config_groups(c["config_groups"], "groups"),
                        .origin = PlanOrigin::kStored};
    for (const Json& text : c["ignore"]) request.ignore.push_back(text.get<std::string>());
    const PlanResult result = make_plan(llama_modules(3), request);
    EXPECT_TRUE(result.problems.empty());
    for (const auto& module : c["bits"].items()) {
      const PlanEntry* entry = result.plan.find(module.key());
      ASSERT_NE(entry, nullptr) << module.key();
      EXPECT_EQ(entry->scheme.weights ? entry->scheme.weights->num_bits : 0, module.value().get<int>())
          << module.key() << " in " << c;
    }
  }
}

TEST(Plan, PrefersNameThenPatternThenClass) {
  const PlanResult result = make_plan(llama_modules(2), request_of({{"", {kUp0}, preset("W8A8")},
                                                                    {"", {"re:.*mlp.*"}, preset("W8A16")},
                                                                    {"", {"Linear"}, preset("W4A16")}}));
  EXPECT_EQ(shown(result, kUp0), "W8A8 channel/token");
  EXPECT_EQ(shown(result, kDown1), "W8A16 g128");
  EXPECT_EQ(shown(result, "model.layers.1.self_attn.o_proj"), "W4A16 g128");
}

TEST(Plan, LetsTheLaterRuleOfTheCommandLineWin) {
  const std::vector<SchemeGroup> groups = {{"", {"re:.*mlp.*"}, preset("W8A16")},
                                           {"", {"re:.*down_proj"}, preset("W4A16")}};
  PlanRequest request = request_of(groups);
  EXPECT_EQ(shown(make_plan(llama_modules(2), request), kDown1), "W4A16 g128");
  std::swap(request.groups[0], request.groups[1]);
  EXPECT_EQ(shown(make_plan(llama_modules(2), request), kDown1), "W8A16 g128");
  for (int order = 0; order < 2; ++order) {  // in a recipe: the alphabetically first pattern
    request.origin = PlanOrigin::kRecipe;
    std::swap(request.groups[0], request.groups[1]);
    EXPECT_EQ(shown(make_plan(llama_modules(2), request), kDown1), "W4A16 g128");
  }
}

TEST(Plan, LetsTheLaterGroupHaveATargetGivenTwice) {
  PlanRequest request = request_of({{"a", {"Linear"}, preset("W8A16")}, {"b", {"Linear"}, preset("W4A16")}});
  request.origin = PlanOrigin::kRecipe;
  const PlanResult result = make_plan(llama_modules(1), request);
  EXPECT_EQ(shown(result, kUp0), "W4A16 g128");
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_TRUE(contains(result.warnings[0], "\"Linear\" is in two groups"));
}

TEST(Plan, LeavesModulesDenseThatAreUnquantizedByRule) {
  const PlanResult result = make_plan(
      llama_modules(2),
      request_of({{"", {"Linear"}, preset("W4A16")}, {"", {"re:.*down_proj"}, preset("UNQUANTIZED")}}));
  EXPECT_TRUE(result.problems.empty());
  EXPECT_EQ(shown(result, kDown1), "BF16");
  EXPECT_EQ(result.plan.find(kDown1)->note, "left as it is by re:.*down_proj");
}

TEST(Plan, ReportsTargetsThatMatchNothing) {
  const std::pair<const char*, const char*> cases[] = {
      {"up_proj", "did you mean \"re:.*\\.up_proj$\"?"},
      {"linear", "did you mean \"Linear\"?"},
      {"model.layers.1.mlp.down_prj", "did you mean \"model.layers.1.mlp.down_proj\"?"},
      {"re:mlp", "did you mean \"re:.*mlp\"?"},
      {"re:vision_tower.*", "\"re:vision_tower.*\" matches no module"},
  };
  for (const auto& [text, part] : cases) {
    PlanRequest request = request_of({{"", {"Linear", text}, preset("W4A16")}});
    for (const PlanOrigin origin : {PlanOrigin::kCommandLine, PlanOrigin::kRecipe}) {
      request.origin = origin;
      const std::string problems = problems_of(make_plan(llama_modules(2), request));
      EXPECT_TRUE(contains(problems, fmt::format("target \"{}\"", text)) && contains(problems, part))
          << problems;
    }
    request.origin = PlanOrigin::kStored;
    const PlanResult stored = make_plan(llama_modules(2), request);
    EXPECT_TRUE(stored.problems.empty());
    EXPECT_EQ(stored.warnings.size(), 1u);
  }
}

TEST(Plan, ReportsIgnoresThatMatchNothing) {
  PlanRequest request = request_of({{"", {"Linear"}, preset("W4A16")}}, {"re:vision_tower.*"});
  EXPECT_TRUE(contains(problems_of(make_plan(llama_modules(2), request)),
                       "ignore \"re:vision_tower.*\" matches no module"));
  for (const PlanOrigin origin : {PlanOrigin::kRecipe, PlanOrigin::kStored}) {
    request.origin = origin;
    const PlanResult result = make_plan(llama_modules(2), request);
    EXPECT_TRUE(result.problems.empty());
    EXPECT_EQ(result.warnings.size(), 1u);
  }
}

TEST(Plan, MissesNoHeadThatIsTied) {
  const auto tied = llama_modules(1, 256, 512, true);
  PlanRequest request = request_of({{"", {"Linear"}, preset("W4A16")}}, {"lm_head"});
  for (const PlanOrigin origin : {PlanOrigin::kCommandLine, PlanOrigin::kRecipe, PlanOrigin::kStored}) {
    request.origin = origin;
    const PlanResult result = make_plan(tied, request);
    EXPECT_TRUE(result.problems.empty() && result.warnings.empty()) << problems_of(result);
  }
}

TEST(Plan, IsNotUnmatchedWhatAStrongerTargetOverrides) {
  const PlanResult result = make_plan(
      llama_modules(1),
      request_of({{"", {kUp0, "re:.*0.mlp.up_proj"}, preset("W4A16")}, {"", {"Linear"}, preset("W8A8")}}));
  EXPECT_TRUE(result.problems.empty() && result.plan.any_quantized()) << problems_of(result);
}

TEST(Plan, CollectsBadPatternsAndUnsupportedSchemes) {
  const Scheme mx{
      .weights = QuantArgs{
          .num_bits = 4, .type = NumberType::kFloat, .strategy = Strategy::kGroup, .group_size = 32}};
  Scheme wrong_format = preset("FP8");
  wrong_format.format = "pack-quantized";
  Scheme act_order = preset("W4A16");
  act_order.weights->actorder = ActOrder::kGroup;
  Scheme scale_type = preset("W4A16");
  scale_type.weights->scale_dtype = "torch.float16";
  PlanRequest request = request_of({{"group_0", {"re:(", "Linear"}, mx},
                                    {"group_1", {"Linear"}, wrong_format},
                                    {"group_2", {"Linear"}, act_order},
                                    {"group_3", {"Linear"}, scale_type}},
                                   {"re:mlp.(gate"});
  const std::string problems = problems_of(make_plan(llama_modules(1), request));
  for (const char* part :
       {"mlp.(gate", "\"(\"", "group_0.weights: MXFP4", "group_1: format \"pack-quantized\" cannot hold",
        "group_2.weights: actorder", "group_3: scale_dtype"})
    EXPECT_TRUE(contains(problems, part)) << part << " in " << problems;
  request.groups = {{"group_2", {"Linear"}, act_order}, {"group_3", {"re:.*"}, scale_type}};
  request.ignore.clear();
  request.origin = PlanOrigin::kStored;
  EXPECT_TRUE(make_plan(llama_modules(1), request).problems.empty());
}

TEST(Plan, EndsAPathologicalPatternCleanly) {
  std::vector<ModuleInfo> modules = {{"model." + std::string(10000, 'a'), "Linear", 128, 128}};
  const PlanRequest request = request_of({{"", {"re:.((a|aa|[lmode.])+)+[!?]"}, preset("W4A16")}});
  EXPECT_TRUE(contains(error_of([&] { make_plan(modules, request); }), "too many steps"));
}

TEST(Plan, QuantizesEmbeddingsOnlyWhenMeant) {
  const Scheme w8 = preset("W8A16");
  for (const char* target : {"Embedding", "model.embed_tokens", "re:.*embed_tokens"}) {
    const PlanResult result = make_plan(llama_modules(1), request_of({{"", {target}, w8}}));
    EXPECT_TRUE(result.problems.empty());
    EXPECT_EQ(shown(result, "model.embed_tokens"), "W8A16 g128") << target;
    EXPECT_EQ(shown(result, kUp0), "BF16") << target;
  }
  EXPECT_EQ(shown(make_plan(llama_modules(1), request_of({{"", {"Module"}, w8}})), "model.embed_tokens"),
            "BF16");
  EXPECT_EQ(shown(make_plan(llama_modules(1), request_of({{"", {"Module"}, w8}})), kUp0), "W8A16 g128");
  const std::string problems =
      problems_of(make_plan(llama_modules(1), request_of({{"", {"re:.*"}, preset("W8A8")}})));
  EXPECT_TRUE(contains(problems, "model.embed_tokens: an embedding takes a weight-only scheme")) << problems;
}

TEST(Plan, RefusesWeightsThatAreNotFloats) {
  auto modules = llama_modules(1);
  modules[1].dtype = DType::kF8E4M3;
  PlanRequest request = request_of({{"", {"Linear"}, preset("W4A16")}});
  EXPECT_TRUE(
      contains(problems_of(make_plan(modules, request)), modules[1].name + ": its weights are F8_E4M3"));
  request.origin = PlanOrigin::kStored;
  EXPECT_TRUE(make_plan(modules, request).problems.empty());
}

TEST(Plan, ListsAllGroupSizesThatDoNotDivide) {
  const auto modules = llama_modules(2, 192, 320);
  const PlanResult result = make_plan(modules, request_of({{"", {"Linear"}, preset("W4A16")}}));
  EXPECT_EQ(result.problems.list().size(), 14u);
  const std::string problems = problems_of(result);
  EXPECT_TRUE(contains(problems,
                       "model.layers.0.self_attn.q_proj: group size 128 does not divide its 192 columns; use "
                       "--group-size 64 or --on-indivisible"))
      << problems;
  EXPECT_TRUE(
      contains(problems, "model.layers.1.mlp.down_proj: group size 128 does not divide its 320 columns"));
  EXPECT_TRUE(
      make_plan(modules, {.groups = {{"", {"Linear"}, preset("W4A16")}}, .origin = PlanOrigin::kStored})
          .problems.empty());
}

TEST(Plan, HandlesIndivisibleGroupsAsAsked) {
  const auto modules = llama_modules(1, 256, 320);  // down_proj has 320 columns
  const std::string down = "model.layers.0.mlp.down_proj";
  PlanRequest request = request_of({{"", {"Linear"}, preset("W4A16")}});
  request.on_indivisible = OnIndivisible::kSkip;
  PlanResult result = make_plan(modules, request);
  EXPECT_TRUE(result.problems.empty());
  EXPECT_EQ(shown(result, down), "BF16");
  EXPECT_FALSE(result.plan.find(down)->ignored);
  EXPECT_EQ(result.plan.find(down)->note, "group size 128 does not divide its 320 columns: left as it is");
  request.on_indivisible = OnIndivisible::kChannel;
  result = make_plan(modules, request);
  EXPECT_EQ(shown(result, down), "W4A16 channel");
  EXPECT_EQ(result.plan.find(down)->scheme.weights->group_size, 0);
  EXPECT_TRUE(contains(result.plan.find(down)->note, "one scale a row"));
  request.on_indivisible = OnIndivisible::kPad;
  result = make_plan(modules, request);
  EXPECT_EQ(shown(result, down), "W4A16 g128");
  EXPECT_TRUE(contains(result.plan.find(down)->note, "the last group has 64"));
  EXPECT_TRUE(result.problems.empty());
  EXPECT_EQ(shown(result, kUp0), "W4A16 g128");
}

TEST(Plan, AllowsRaggedBlocksAndNotesRaggedActivations) {
  const PlanResult result =
      make_plan(llama_modules(1, 192, 256), request_of({{"", {"Linear"}, preset("FP8_BLOCK")}}));
  EXPECT_TRUE(result.problems.empty()) << problems_of(result);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_TRUE(contains(result.warnings[0], "6 modules (model.layers.0.self_attn.q_proj, ...)"))
      << result.warnings[0];
  EXPECT_TRUE(contains(result.plan.find(kUp0)->note, "activation groups of 128 do not divide 192"));
  EXPECT_EQ(result.plan.find("model.layers.0.mlp.down_proj")->note, "");
}

TEST(Plan, WarnsWhenFusedModulesDisagree) {
  const PlanResult result = make_plan(
      llama_modules(2),
      request_of({{"", {"Linear"}, preset("W4A16")}, {"", {"re:.*1.*v_proj"}, preset("W8A16")}}, {kUp0}));
  EXPECT_TRUE(result.problems.empty());
  ASSERT_EQ(result.warnings.size(), 2u);
  EXPECT_TRUE(contains(result.warnings[0], "model.layers.0.mlp.gate_up_proj is one matrix in vLLM"))
      << result.warnings[0];
  EXPECT_TRUE(contains(result.warnings[0], "gate_proj [512, 256] W4A16 g128, up_proj [512, 256] BF16"));
  EXPECT_TRUE(contains(result.warnings[1], "v_proj [256, 256] W8A16 g128")) << result.warnings[1];
}

TEST(Plan, RespectsAFormatThatHoldsTheNumbers) {
  Scheme scheme = preset("W4A8");
  scheme.format = "int-quantized";
  const PlanResult result = make_plan(llama_modules(1), request_of({{"", {"Linear"}, scheme}}));
  EXPECT_TRUE(result.problems.empty());
  EXPECT_EQ(result.plan.find(kUp0)->scheme.format, "int-quantized");
}

}  // namespace
}  // namespace roundel
