// Recipes as llm-compressor writes and documents them; what they mean is written down by hand here.
#include "quantize/recipe.h"

#include <gtest/gtest.h>

#include "tests/checkpoint/support.h"

namespace roundel {
namespace {

// A modifier's body of `lines`, indented into its place.
std::string modifier(const std::string& lines) {
  std::string text = "quant_stage:\n  quant_modifiers:\n    QuantizationModifier:\n";
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) text += "      " + line + "\n";
  return text;
}

PlanRequest request_of(const std::string& text, const std::string& name = "recipe.yaml") {
  return parse_recipe(text, name).modifiers.front().request.value();
}

void refuses(const std::string& text, const std::vector<std::string>& words,
             ErrorCode code = ErrorCode::kInvalid) {
  SCOPED_TRACE(text);
  expect_error([&] { parse_recipe(text, "recipe.yaml"); }, words);
  const auto error = error_of([&] { parse_recipe(text, "recipe.yaml"); });
  if (error) {
    EXPECT_EQ(error->code(), code);
  }
}

const QuantArgs kInt4Groups{.num_bits = 4, .strategy = Strategy::kGroup, .group_size = 128};
const QuantArgs kInt8Channel{.num_bits = 8, .strategy = Strategy::kChannel};
const QuantArgs kInt8Token{.num_bits = 8, .strategy = Strategy::kToken, .dynamic = DynamicMode::kDynamic};

// ---- accepted forms ----

TEST(Recipe, PresetForItsTargets) {
  const PlanRequest r =
      request_of(modifier("scheme: W8A8\ntargets: [Linear, 're:.*mlp.*']\nignore: [lm_head]"));
  ASSERT_EQ(r.groups.size(), 1u);
  EXPECT_EQ(r.groups[0].targets, (std::vector<std::string>{"Linear", "re:.*mlp.*"}));
  EXPECT_EQ(r.groups[0].scheme.weights, kInt8Channel);
  EXPECT_EQ(r.groups[0].scheme.input, kInt8Token);
  EXPECT_EQ(r.ignore, std::vector<std::string>{"lm_head"});
  EXPECT_TRUE(r.default_ignore.empty());  // a recipe says itself what it leaves out
  EXPECT_EQ(r.origin, PlanOrigin::kRecipe);
  EXPECT_EQ(r.where, "recipe.yaml: line 3: QuantizationModifier");
}

TEST(Recipe, TargetsAreLinearWhenNotGiven) {
  for (const char* lines :
       {"scheme: W4A16", "scheme: w4a16\ntargets: null", "scheme: W4A16\ntargets: Linear"}) {
    const PlanRequest r = request_of(modifier(lines));
    ASSERT_EQ(r.groups.size(), 1u) << lines;
    EXPECT_EQ(r.groups[0].targets, std::vector<std::string>{"Linear"}) << lines;
    EXPECT_EQ(r.groups[0].scheme.weights, kInt4Groups) << lines;
    EXPECT_TRUE(r.ignore.empty());
  }
}

TEST(Recipe, SchemeAsMapOfPresets) {
  const PlanRequest r =
      request_of(modifier("scheme:\n  W4A16: ['re:.*q_proj']\n  W8A8: ['re:.*k_proj', 're:.*v_proj']"));
  ASSERT_EQ(r.groups.size(), 2u);
  EXPECT_EQ(r.groups[0].targets, std::vector<std::string>{"re:.*q_proj"});
  EXPECT_EQ(r.groups[0].scheme.weights, kInt4Groups);
  EXPECT_EQ(r.groups[1].targets, (std::vector<std::string>{"re:.*k_proj", "re:.*v_proj"}));
  EXPECT_EQ(r.groups[1].scheme.weights, kInt8Channel);
}

constexpr char kGroupsText[] =
    "config_groups:\n"
    "  group_0:\n"
    "    targets: [Linear]\n"
    "    weights: {num_bits: 4, type: int, symmetric: false, strategy: group, group_size: 32}\n"
    "  group_1:\n"
    "    targets: ['re:.*down_proj']\n"
    "    weights: {num_bits: 8, type: float, symmetric: true, strategy: channel}\n"
    "    input_activations: {num_bits: 8, type: float, symmetric: true, strategy: token, dynamic: true}\n"
    "ignore: lm_head";

void expect_groups(const PlanRequest& r) {
  ASSERT_EQ(r.groups.size(), 2u);
  EXPECT_EQ(r.groups[0].name, "group_0");
  const QuantArgs first{.num_bits = 4, .symmetric = false, .strategy = Strategy::kGroup, .group_size = 32};
  EXPECT_EQ(r.groups[0].scheme.weights, first);
  EXPECT_FALSE(r.groups[0].scheme.input);
  const QuantArgs second{.num_bits = 8, .type = NumberType::kFloat, .strategy = Strategy::kChannel};
  EXPECT_EQ(r.groups[1].scheme.weights, second);
  ASSERT_TRUE(r.groups[1].scheme.input);
  EXPECT_EQ(r.groups[1].scheme.input->type, NumberType::kFloat);
  EXPECT_EQ(r.groups[1].scheme.input->dynamic, DynamicMode::kDynamic);
  EXPECT_EQ(r.groups[1].targets, std::vector<std::string>{"re:.*down_proj"});
  EXPECT_EQ(r.ignore, std::vector<std::string>{"lm_head"});
}

TEST(Recipe, ConfigGroups) {
  expect_groups(request_of(modifier(kGroupsText)));
}

TEST(Recipe, ConfigGroupOfAPresetsName) {
  const PlanRequest r = request_of(modifier("config_groups:\n  W8A8: ['re:.*q_proj', Linear]"));
  ASSERT_EQ(r.groups.size(), 1u);
  EXPECT_EQ(r.groups[0].scheme.weights, kInt8Channel);
  EXPECT_EQ(r.groups[0].targets, (std::vector<std::string>{"re:.*q_proj", "Linear"}));
}

TEST(Recipe, JsonIsARecipe) {
  expect_groups(request_of(
      R"({"s_stage": {"q_modifiers": {"QuantizationModifier": {"ignore": ["lm_head"], "config_groups": {
      "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "symmetric": false,
                  "strategy": "group", "group_size": 32}},
      "group_1": {"targets": ["re:.*down_proj"],
                  "weights": {"num_bits": 8, "type": "float", "symmetric": true, "strategy": "channel"},
                  "input_activations": {"num_bits": 8, "type": "float", "symmetric": true, "strategy": "token",
                                        "dynamic": true}}}}}}})",
      "recipe.json"));
}

TEST(Recipe, MarkdownFrontMatter) {
  const std::string yaml = modifier(kGroupsText);
  expect_groups(request_of("---\n" + yaml + "---\n# A model card\n\ntext: with a colon\n", "README.md"));
  expect_error([&] { request_of(yaml, "README.md"); }, {"README.md", "---"});
  expect_error([&] { request_of("---\n" + yaml, "README.md"); }, {"README.md", "not closed"});
}

TEST(Recipe, ModifiersWithoutAStage) {
  expect_groups(request_of("quant_modifiers:\n  QuantizationModifier:\n    " + [] {
    std::string text;
    for (const char c : std::string(kGroupsText))
      text += c == '\n' ? std::string("\n    ") : std::string(1, c);
    return text;
  }() + "\n"));
}

TEST(Recipe, ManyStagesAddUp) {
  const Recipe r = parse_recipe(
      "a_stage:\n  run_type: oneshot\n  x_modifiers:\n    QuantizationModifier: {scheme: W8A8, targets: "
      "['re:.*q_proj'], "
      "ignore: [a]}\n"
      "b_stage:\n  y_modifiers:\n    QuantizationModifier: {scheme: W4A16, targets: ['re:.*k_proj'], ignore: "
      "[b]}\n",
      "recipe.yaml");
  ASSERT_EQ(r.modifiers.size(), 2u);
  const PlanRequest &first = r.modifiers[0].request.value(), &second = r.modifiers[1].request.value();
  ASSERT_EQ(first.groups.size(), 1u);
  ASSERT_EQ(second.groups.size(), 1u);
  EXPECT_EQ(first.groups[0].scheme.weights, kInt8Channel);
  EXPECT_EQ(second.groups[0].scheme.weights, kInt4Groups);
  EXPECT_EQ(first.ignore, std::vector<std::string>{"a"});
  EXPECT_EQ(second.ignore, std::vector<std::string>{"b"});
}

TEST(Recipe, KeysThatRoundingDoesNotNeedAreAccepted) {
  const PlanRequest r = request_of(
      "version: 1\nargs: {}\n" + modifier("scheme: W8A8\nkv_cache_scheme: null\n"
                                          "weight_observer: minmax\ninput_observer: minmax\noutput_observer: "
                                          "null\nbypass_divisibility_checks: false\n"
                                          "requires_calibration_data: false\nindex: 0\ngroup: g"));
  EXPECT_EQ(r.groups.size(), 1u);
}

TEST(Recipe, AliasesAndMergedTextKeepTheirMeaning) {
  const PlanRequest r =
      request_of(modifier("config_groups:\n  group_0:\n    targets: &t [Linear]\n    weights: &w {num_bits: "
                          "8, strategy: channel}\n"
                          "  group_1:\n    targets: *t\n    weights: *w"));
  ASSERT_EQ(r.groups.size(), 2u);
  EXPECT_EQ(r.groups[1].scheme.weights, kInt8Channel);
  EXPECT_EQ(r.groups[1].targets, std::vector<std::string>{"Linear"});
}

TEST(Recipe, ReadsAFile) {
  TempFolder folder;
  write_file(folder / "r.yaml", modifier("scheme: W8A8"));
  const Recipe r = read_recipe(folder / "r.yaml");
  EXPECT_EQ(r.name, (folder / "r.yaml").string());
  ASSERT_EQ(r.modifiers.size(), 1u);
  EXPECT_EQ(r.modifiers[0].kind, "QuantizationModifier");
  expect_error([&] { read_recipe(folder / "absent.yaml"); }, {"absent.yaml"});
}

// ---- refusals ----

TEST(Recipe, RefusesUnknownKeysWithTheNearestOne) {
  refuses(modifier("shceme: W8A8"), {"recipe.yaml", "line 4", "\"shceme\"", "did you mean \"scheme\""});
  refuses(modifier("scheme: W8A8\nignored: [lm_head]"), {"line 5", "\"ignored\"", "did you mean \"ignore\""});
  refuses(modifier("scheme: W8A8\nconfig_group: {}"), {"line 5", "did you mean \"config_groups\""});
  refuses(modifier("scheme: W9A16"), {"line 4", "W9A16", "W8A16"});
  refuses(modifier("config_groups:\n  g:\n    weights: {num_bit: 4}"), {"line 6", "num_bit", "num_bits"});
  refuses("s_stage:\n  q_modifiers:\n    QuantizationModifer: {scheme: W8A8}\n",
          {"line 3", "QuantizationModifer", "did you mean \"QuantizationModifier\""});
}

TEST(Recipe, RefusesOtherModifiersByName) {
  // SparseGPT and pruning stay outside of what roundel is for.
  for (const char* name : {"SparseGPTModifier", "WandaPruningModifier"})
    refuses(std::string("s_stage:\n  q_modifiers:\n    ") + name + ":\n      sparsity: 0.5\n",
            {"line 3", name}, ErrorCode::kUnsupported);
}

TEST(Recipe, RefusesWhatSaysNothing) {
  refuses("", {"recipe.yaml"});
  refuses("a list: of nothing\n", {"no modifier", "QuantizationModifier"});
  refuses("- a\n- b\n", {"expected a map"});
  refuses("s_stage:\n  q_modifiers: {}\n", {"no modifier"});
  refuses("s_stage:\n  q_modifiers:\n    QuantizationModifier:\n",
          {"line 3", "needs a scheme or config_groups"});
  refuses(modifier("targets: Linear"), {"needs a scheme or config_groups"});
  refuses(modifier("scheme: null"), {"needs a scheme or config_groups"});
}

TEST(Recipe, RefusesFormsThatAreNone) {
  refuses(modifier("scheme: W8A8\nconfig_groups: {group_0: {weights: {num_bits: 8}}}"),
          {"line 4", "exclude each other"});
  refuses("s_stage: 5\n", {"line 1", "s_stage must be a map"});
  refuses("s_stage:\n  q_modifiers: [a]\n", {"line 2", "q_modifiers must be a map"});
  refuses("s_stage:\n  q_modifiers:\n    QuantizationModifier: W8A8\n",
          {"line 3", "expected a map of its options"});
  refuses(modifier("scheme: [W8A8]"), {"line 4", "scheme is a list", "a preset's name"});
  refuses(modifier("scheme: W8A8\ntargets: {a: b}"), {"line 5", "list of strings"});
  refuses(modifier("scheme: W8A8\nignore: [[a]]"), {"line 5", "expected strings"});
  refuses(modifier("config_groups:\n  group_0: 4"), {"line 5", "group_0 is \"4\"", "expected a map"});
  refuses(modifier("scheme: W8A8\nscheme: W4A16"), {"line 5", "duplicate key \"scheme\""});
}

TEST(Recipe, RefusesNumbersThatAreNone) {
  refuses(modifier("config_groups:\n  group_0:\n    weights: {num_bits: four}"), {"num_bits"});
  refuses(modifier("config_groups:\n  group_0:\n    weights: {num_bits: '4'}"), {"num_bits"});
  refuses(modifier("config_groups:\n  group_0:\n    weights: {num_bits: 4, strategy: groups}"),
          {"strategy", "groups"});
}

// ---- writing ----

TEST(Recipe, WrittenRecipeReadsBackAsTheSamePlan) {
  std::vector<ModuleInfo> modules;
  for (const char* name : {"model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj", "lm_head"})
    modules.push_back({name, "Linear", 64, 128, DType::kBF16, ""});
  const PlanResult made = make_plan(
      modules, request_of(modifier(
                   "config_groups:\n  group_0:\n    targets: [Linear]\n    weights: {num_bits: 4, strategy: "
                   "group, group_size: 64}\n  group_1:\n    targets: ['re:.*down_proj']\n    weights: "
                   "{num_bits: 8, strategy: channel, symmetric: false}\nignore: [lm_head]")));
  ASSERT_TRUE(made.problems.empty());
  const PlanResult again = make_plan(modules, request_of(write_recipe(made.plan)));
  ASSERT_TRUE(again.problems.empty()) << again.problems.list()[0].message;
  ASSERT_EQ(again.plan.entries.size(), made.plan.entries.size());
  for (size_t i = 0; i < modules.size(); ++i) {
    const Scheme &a = made.plan.entries[i].scheme, &b = again.plan.entries[i].scheme;
    ASSERT_EQ(a.weights.has_value(), b.weights.has_value()) << modules[i].name;
    if (a.weights) {
      EXPECT_TRUE(a.weights->same_numbers(*b.weights)) << modules[i].name;
    }
    EXPECT_EQ(a.format, b.format);
  }
  EXPECT_EQ(made.plan.entries[1].scheme.weights->num_bits, 8);
  EXPECT_FALSE(again.plan.entries[2].scheme.weights);
}

}  // namespace
}  // namespace roundel
