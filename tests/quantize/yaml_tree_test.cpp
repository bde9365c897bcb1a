#include "quantize/yaml_tree.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/checkpoint/support.h"

namespace roundel {
namespace {

Json json_of(const std::string& text) {
  return to_json(parse_yaml(text, "a.yaml"));
}

std::optional<ErrorCode> code_of(const std::string& text, const YamlLimits& limits = {}) {
  const auto error = error_of([&] { parse_yaml(text, "a.yaml", limits); });
  return error ? std::optional(error->code()) : std::nullopt;
}

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
}

// yaml.safe_load of PyYAML 6 gives the same values.
TEST(YamlTree, ScalarsBecomeTheirTypes) {
  EXPECT_EQ(
      json_of("{a: 1, b: -7, c: +3, d: 1.5, e: 1.0e+3, f: true, g: False, h: null, i: ~, j: , k: word}"),
      Json::parse(
          R"({"a": 1, "b": -7, "c": 3, "d": 1.5, "e": 1000.0, "f": true, "g": false, "h": null, "i": null,
                            "j": null, "k": "word"})"));
  EXPECT_TRUE(json_of("a: 4")["a"].is_number_integer());
  EXPECT_TRUE(json_of("a: 4.0")["a"].is_number_float());
}

TEST(YamlTree, QuotedScalarsStayText) {
  EXPECT_EQ(json_of("[\"1\", 'true', \"null\", '~', !!str 5]"),
            Json::parse(R"(["1", "true", "null", "~", "5"])"));
  EXPECT_EQ(json_of("a: |\n  two\n  lines\n"), Json::parse(R"({"a": "two\nlines\n"})"));
}

TEST(YamlTree, WordsThatOnlyLookLikeNumbersStayText) {
  EXPECT_EQ(json_of("[1_000, 1.2.3, 12abc, --1, inf, nan, e5, 're:.*']"),
            Json::parse(R"(["1_000", "1.2.3", "12abc", "--1", "inf", "nan", "e5", "re:.*"])"));
}

TEST(YamlTree, KnowsTheLines) {
  const YamlNode root = parse_yaml("# comment\na:\n  - x\n  - y: 1\nb: 2\n", "a.yaml");
  ASSERT_EQ(root.members.size(), 2u);
  EXPECT_EQ(root.members[0].first.line, 2);
  EXPECT_EQ(root.find("a")->items[0].line, 3);
  EXPECT_EQ(root.find("a")->items[1].find("y")->line, 4);
  EXPECT_EQ(root.find("b")->line, 5);
  EXPECT_EQ(root.find("c"), nullptr);
}

TEST(YamlTree, MembersKeepTheirOrder) {
  const YamlNode root = parse_yaml("z: 1\na: 2\nm: 3\n", "a.yaml");
  std::string order;
  for (const auto& [key, value] : root.members) order += key.scalar;
  EXPECT_EQ(order, "zam");
}

TEST(YamlTree, DepthIsLimited) {
  EXPECT_EQ(code_of(nested(64)), std::nullopt);
  EXPECT_EQ(code_of(nested(65)), ErrorCode::kLimit);
  EXPECT_EQ(code_of(nested(100000)), ErrorCode::kLimit);
  expect_error([] { parse_yaml("a:\n b:\n  c: 1\n", "a.yaml", {.max_depth = 2}); },
               {"a.yaml", "line 3", "2 levels"});
}

TEST(YamlTree, SizeIsLimited) {
  const std::string text = "a: 12345";  // 8 bytes
  EXPECT_EQ(code_of(text, {.max_bytes = 8}), std::nullopt);
  EXPECT_EQ(code_of(text, {.max_bytes = 7}), ErrorCode::kLimit);
  expect_error([&] { parse_yaml(text, "a.yaml", {.max_bytes = 7}); }, {"a.yaml", "8 bytes", "7"});
}

TEST(YamlTree, AliasesCopyAndAreCounted) {
  EXPECT_EQ(json_of("a: &x [1, 2]\nb: *x\n"), Json::parse(R"({"a": [1, 2], "b": [1, 2]})"));
  // [1, 2] is 3 nodes; two aliases are 6.
  const std::string text = "a: &x [1, 2]\nb: *x\nc: *x\n";
  EXPECT_EQ(code_of(text, {.max_alias_nodes = 6}), std::nullopt);
  EXPECT_EQ(code_of(text, {.max_alias_nodes = 5}), ErrorCode::kLimit);
}

TEST(YamlTree, RefusesBillionLaughs) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int j = 0; j < 8; ++j) text += ", " + before;
    text += "]\n";
  }
  EXPECT_EQ(code_of(text), ErrorCode::kLimit);
}

TEST(YamlTree, RefusesWhatIsNoTree) {
  EXPECT_EQ(code_of("a: &x [1, *x]\n"), ErrorCode::kInvalid);  // holds itself
  EXPECT_EQ(code_of("a: *nobody\n"), ErrorCode::kInvalid);
  EXPECT_EQ(code_of("? [a, b]\n: 1\n"), ErrorCode::kInvalid);  // a list as key
  expect_error([] { parse_yaml("a: 1\nb: 2\na: 3\n", "a.yaml"); },
               {"a.yaml", "line 3", "duplicate key \"a\""});
  expect_error([] { parse_yaml("a: [1, 2\nb: 3\n", "a.yaml"); }, {"a.yaml", "line"});
  expect_error([] { parse_yaml(std::string("a: \0b", 5), "a.yaml"); }, {"a.yaml", "NUL"});
}

TEST(YamlTree, RefusesTagsThatMakeObjects) {
  for (const char* text :
       {"a: !!python/object/apply:os.system ['true']\n", "a: !mine 5\n", "!!python/name:os.system x\n"})
    EXPECT_EQ(code_of(text), ErrorCode::kUnsupported) << text;
  EXPECT_EQ(json_of("a: !!str 5\n"), Json::parse(R"({"a": "5"})"));
}

TEST(YamlTree, EmptyTextIsNull) {
  EXPECT_EQ(parse_yaml("", "a.yaml").kind, YamlNode::Kind::kNull);
  EXPECT_EQ(parse_yaml("# nothing\n", "a.yaml").kind, YamlNode::Kind::kNull);
}

}  // namespace
}  // namespace roundel
