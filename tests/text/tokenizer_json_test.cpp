// What a tokenizer.json may hold: what is refused, by which name, and what is understood.
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/text/tokenizer_fixture.h"

namespace roundel::test {
namespace {

Tokenizer parsed(const Json& changes) {
  return Tokenizer::parse(small_tokenizer(changes).dump(), "tokenizer.json");
}

// The message of the Error that the changes to the small tokenizer cause.
std::string refusal(const Json& changes) {
  try {
    parsed(changes);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

void expect_refused(const Json& changes, const std::vector<std::string>& named) {
  const std::string message = refusal(changes);
  EXPECT_NE(message, "accepted") << changes;
  EXPECT_NE(message.find("tokenizer.json"), std::string::npos) << message;
  for (const std::string& name : named) EXPECT_NE(message.find(name), std::string::npos) << message;
}

Json added(std::vector<std::pair<std::string, int>> tokens) {
  Json list = Json::array();
  for (const auto& [content, id] : tokens)
    list.push_back({{"content", content}, {"id", id}, {"special", true}});
  return {{"added_tokens", list}};
}

TEST(TokenizerJson, TakesBothSpellingsOfMerges) {
  const std::vector<int32_t> expected = {4, 3, 0};
  EXPECT_EQ(parsed(Json::object()).encode("abcaba"), expected);
  EXPECT_EQ(parsed(Json::parse(R"({"model": {"merges": [["a", "b"], ["ab", "c"]]}})")).encode("abcaba"),
            expected);
  EXPECT_EQ(
      parsed(Json::parse(R"({"model": {"merges": ["#version: 0.2", "a b", "ab c"]}})")).encode("abcaba"),
      expected);
}

TEST(TokenizerJson, NamesTheMergeAtFault) {
  expect_refused(Json::parse(R"({"model": {"merges": ["a b", "qz xj"]}})"),
                 {"merges[1]", "\"qz\"", "vocabulary"});
  expect_refused(Json::parse(R"({"model": {"merges": [["a", "b"], ["b", "c"]]}})"), {"merges[1]", "\"bc\""});
  expect_refused(Json::parse(R"({"model": {"merges": ["a b c"]}})"), {"merges[0]", "a b c"});
  expect_refused(Json::parse(R"({"model": {"merges": ["ab"]}})"), {"merges[0]"});
  expect_refused(Json::parse(R"({"model": {"merges": [["a"]]}})"), {"merges[0]"});
  expect_refused(Json::parse(R"({"model": {"merges": [["", "a"]]}})"), {"merges[0]", "empty"});
  expect_refused(Json::parse(R"({"model": {"merges": 1}})"), {"merges"});
}

TEST(TokenizerJson, RefusesIdsThatBelongToTwoTokens) {
  expect_refused(Json::parse(R"({"model": {"vocab": {"x": 1}}})"), {"id 1", "\"b\"", "\"x\""});
  expect_refused(added({{"<s>", 2}}), {"added_tokens[0]", "<s>", "\"c\""});
  expect_refused(added({{"<s>", 7}, {"</s>", 7}}), {"id 7", "<s>", "</s>"});
  expect_refused(added({{"<s>", 7}, {"<s>", 8}}), {"<s>", "7", "8"});
  expect_refused(added({{"ab", 7}}), {"\"ab\"", "3", "7"});
}

TEST(TokenizerJson, RefusesIdsOutOfRange) {
  expect_refused(Json::parse(R"({"model": {"vocab": {"x": -1}}})"), {"\"x\"", "-1"});
  expect_refused(Json::parse(R"({"model": {"vocab": {"x": 2000000000}}})"), {"\"x\"", "2000000000"});
  expect_refused(Json::parse(R"({"model": {"vocab": {"x": 18446744073709551615}}})"), {"\"x\""});
  expect_refused(Json::parse(R"({"model": {"vocab": {"x": 1.5}}})"), {"\"x\"", "1.5"});
  expect_refused(Json::parse(R"({"model": {"vocab": {"x": "1"}}})"), {"\"x\""});
  expect_refused(added({{"<s>", -1}}), {"added_tokens[0]", "-1"});
}

TEST(TokenizerJson, AllowsGapsBetweenIds) {
  Json changes = Json::parse(R"({"model": {"vocab": {"x": 20}}})");
  changes.update(added({{"<s>", 30}}));
  const Tokenizer tokenizer = parsed(changes);
  EXPECT_EQ(tokenizer.encode("ax<s>"), (std::vector<int32_t>{0, 20, 30}));
  EXPECT_EQ(tokenizer.id_limit(), 31);
  EXPECT_EQ(tokenizer.token(10), "");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{0, 10, 20, 25, 99, -5}), "a x");
}

TEST(TokenizerJson, NamesUnknownTypes) {
  expect_refused(Json::parse(R"({"pre_tokenizer": {"type": "Zigzag"}})"), {"pre_tokenizer", "Zigzag"});
  expect_refused(
      Json::parse(
          R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "Q"}]}})"),
      {"pretokenizers[1]", "\"Q\""});
  expect_refused(Json::parse(R"({"normalizer": {"type": "Zigzag"}})"), {"normalizer", "Zigzag"});
  expect_refused(Json::parse(R"({"post_processor": {"type": "Zigzag"}})"), {"post_processor", "Zigzag"});
  expect_refused(Json::parse(R"({"decoder": {"type": "Zigzag"}})"), {"decoder", "Zigzag"});
  expect_refused(Json::parse(R"({"model": {"type": "Unigram"}})"), {"model", "Unigram"});
  expect_refused(Json::parse(R"({"pre_tokenizer": {}})"), {"pre_tokenizer", "type"});
  expect_refused(Json::parse(R"({"version": "2.0"})"), {"version", "2.0"});
}

TEST(TokenizerJson, NamesUnknownOptions) {
  expect_refused(Json::parse(R"({"model": {"dropout": 0.1}})"), {"dropout"});
  expect_refused(Json::parse(R"({"model": {"end_of_word_suffix": "</w>"}})"), {"end_of_word_suffix", "</w>"});
  expect_refused(Json::parse(R"({"model": {"continuing_subword_prefix": "##"}})"),
                 {"continuing_subword_prefix"});
  expect_refused(
      Json::parse(R"({"pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "Cut"}})"),
      {"behavior", "Cut"});
  expect_refused(
      Json::parse(R"({"pre_tokenizer": {"type": "Split", "pattern": "a", "behavior": "Isolated"}})"),
      {"pattern"});
  expect_refused(Json::parse(R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "ab"}})"),
                 {"replacement"});
  expect_refused(
      Json::parse(
          R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"}})"),
      {"last"});
  EXPECT_EQ(parsed(Json::parse(R"({"model": {"end_of_word_suffix": "", "dropout": 0}})")).encode("ab").size(),
            1u);
}

TEST(TokenizerJson, NamesPatternsThatDoNotCompile) {
  for (const char* pattern :
       {"(?i:'s|'t|[a-z", "(", "a)", "[z-a]", "*a", "\\p{Nonsense}", "\\", "(?<=a+)b", "\\p{L", "(?q:a)",
        "[[:nonsense:]]", "\\xFF", "(?~a)", "[a&&", "(?<n", "\\x{110000}"}) {
    const Json split = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
    expect_refused({{"pre_tokenizer", split}}, {"pattern", "pre_tokenizer"});
  }
}

TEST(TokenizerJson, RefusesDeepNesting) {
  Json inner = {{"type", "Whitespace"}};
  for (int i = 0; i < 20; ++i) inner = {{"type", "Sequence"}, {"pretokenizers", Json::array({inner})}};
  expect_refused({{"pre_tokenizer", inner}}, {"deeper"});
  const std::string pattern = std::string(200, '[') + "a" + std::string(200, ']');
  const Json split = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
  expect_refused({{"pre_tokenizer", split}}, {"nested"});
}

TEST(TokenizerJson, ChecksThePostProcessor) {
  const char* unknown_id = R"({"post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [77], "tokens": ["<s>"]}}}})";
  expect_refused(Json::parse(unknown_id), {"post_processor", "77"});
  const char* missing = R"({"post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}], "pair": [], "special_tokens": {}}})";
  expect_refused(Json::parse(missing), {"special_tokens", "<s>"});
  const char* other = R"({"post_processor": {"type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "B", "type_id": 0}}], "pair": [], "special_tokens": {}}})";
  expect_refused(Json::parse(other), {"single[0]", "\"B\""});
}

TEST(TokenizerJson, LeavesTruncationAndPaddingToTheCaller) {
  const Tokenizer tokenizer =
      parsed(Json::parse(R"({"truncation": {"max_length": 1}, "padding": {"length": 9}})"));
  EXPECT_EQ(tokenizer.encode("ca"), (std::vector<int32_t>{2, 0}));
}

TEST(TokenizerJson, RefusesWhatIsNoTokenizer) {
  for (const char* text :
       {"", "[]", "{}", "null", "{\"model\": 1}", "{\"model\": {\"vocab\": [], \"merges\": []}}",
        "{\"model\": {\"vocab\": {}}}", "{\"model\":"})
    EXPECT_THROW(Tokenizer::parse(text, "tokenizer.json"), Error) << text;
}

TEST(TokenizerJson, UnknownCharactersFollowTheModel) {
  EXPECT_EQ(parsed(Json::object()).encode("a?b"),
            (std::vector<int32_t>{3}));  // left out, as `tokenizers` does
  const Json lost = Json::parse(R"({"model": {"unk_token": "<unk>"}})");
  EXPECT_THROW(parsed(lost).encode("a?b"), Error);
  const Json known = Json::parse(R"({"model": {"unk_token": "<unk>", "vocab": {"<unk>": 9}}})");
  EXPECT_EQ(parsed(known).encode("a??b"), (std::vector<int32_t>{0, 9, 9, 1}));
  const Json fused =
      Json::parse(R"({"model": {"unk_token": "<unk>", "fuse_unk": true, "vocab": {"<unk>": 9}}})");
  EXPECT_EQ(parsed(fused).encode("a??b"), (std::vector<int32_t>{0, 9, 1}));
}

}  // namespace
}  // namespace roundel::test
