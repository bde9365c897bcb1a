// Whole tokenizers against what the `tokenizers` package gives.
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/text/tokenizer_fixture.h"

namespace roundel::test {
namespace {

class TokenizerGolden : public testing::TestWithParam<std::string> {
 protected:
  TokenizerGolden()
      : data_(tokenizer_data(GetParam() + ".json")), tokenizer_(fixture_tokenizer(GetParam())) {}
  Json data_;
  Tokenizer tokenizer_;
};

TEST_P(TokenizerGolden, EncodesAsTokenizersDoes) {
  const Json texts = tokenizer_data("texts.json");
  std::vector<Json> all = texts.at("common");
  for (const Json& text : texts.at("added_tokens"))
    if (all.size() < data_.at("ids").size()) all.push_back(text);
  ASSERT_EQ(all.size(), data_.at("ids").size());
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(tokenizer_.encode(text_of(all[i])), data_.at("ids")[i].get<std::vector<int32_t>>())
        << "text " << i << " " << all[i];
}

// The test split of WikiText-2 in one call: the count of the ids, and a number that changes with each of them.
TEST_P(TokenizerGolden, EncodesADocumentAsTokenizersDoes) {
  const auto path = std::filesystem::path(ROUNDEL_TEST_DATA) / "wikitext-2" / "wiki.test.raw";
  const std::vector<int32_t> ids = tokenizer_.encode(read_text_file(path, 1 << 24));
  uint64_t hash = 0;
  for (const int32_t id : ids) hash = hash * 1000003 + static_cast<uint64_t>(id) + 1;
  EXPECT_EQ(ids.size(), data_.at("document")[0].get<size_t>());
  EXPECT_EQ(std::to_string(hash), data_.at("document")[1].get<std::string>());
}

TEST_P(TokenizerGolden, AddsBeginAndEndTokens) {
  EXPECT_EQ(tokenizer_.encode("", {.add_special = true}),
            data_.at("begin_and_end")[0].get<std::vector<int32_t>>());
  EXPECT_EQ(tokenizer_.encode("Hello", {.add_special = true}),
            data_.at("begin_and_end")[1].get<std::vector<int32_t>>());
}

TEST_P(TokenizerGolden, DecodesAsTokenizersDoes) {
  for (const Json& item : data_.at("decode")) {
    const auto ids = item[0].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer_.decode(ids, {.skip_special = true}), item[1].get<std::string>()) << item[0];
    EXPECT_EQ(tokenizer_.decode(ids, {.skip_special = false}), item[2].get<std::string>()) << item[0];
  }
}

TEST_P(TokenizerGolden, FindsItsTokens) {
  const Json& tree = data_.at("tokenizer");
  int32_t limit = 0;
  for (const auto& [token, id] : tree.at("model").at("vocab").items()) {
    EXPECT_EQ(tokenizer_.find(token), id.get<int32_t>());
    EXPECT_EQ(tokenizer_.token(id.get<int32_t>()), token);
    limit = std::max(limit, id.get<int32_t>() + 1);
  }
  for (const Json& added : tree.at("added_tokens")) {
    const auto id = added.at("id").get<int32_t>();
    EXPECT_EQ(tokenizer_.find(added.at("content").get<std::string>()), id);
    EXPECT_EQ(tokenizer_.token(id), added.at("content").get<std::string>());
    EXPECT_EQ(tokenizer_.is_special(id), added.at("special").get<bool>());
    limit = std::max(limit, id + 1);
  }
  EXPECT_EQ(tokenizer_.id_limit(), limit);
  EXPECT_EQ(tokenizer_.token(limit), "");
  EXPECT_EQ(tokenizer_.token(-1), "");
  EXPECT_FALSE(tokenizer_.find("no such token"));
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden, testing::ValuesIn(fixture_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace roundel::test
