#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "tests/text/tokenizer_fixture.h"

namespace roundel::test {
namespace {

class StreamDecoderRandom : public testing::TestWithParam<std::string> {};

// Any list of ids: the parts are whole characters, and all of them together are the text of the list.
TEST_P(StreamDecoderRandom, GivesTheTextOfDecode) {
  const Tokenizer tokenizer = fixture_tokenizer(GetParam());
  std::mt19937 random(7);
  const auto below = [&](int32_t limit) {
    return static_cast<int32_t>(random() % static_cast<uint32_t>(limit));
  };
  for (int round = 0; round < 2000; ++round) {
    const DecodeOptions options{.skip_special = round % 2 == 0};
    const int32_t limit = round % 3 == 0 ? 260 : tokenizer.id_limit() + 2;
    std::vector<int32_t> ids(static_cast<size_t>(below(25)));
    for (int32_t& id : ids) id = below(limit);
    StreamDecoder stream(tokenizer, options);
    std::string text;
    for (const int32_t id : ids) {
      const std::string part = stream.push(id);
      ASSERT_TRUE(is_valid_utf8(part)) << Json(ids);
      text += part;
    }
    text += stream.finish();
    ASSERT_EQ(text, tokenizer.decode(ids, options)) << Json(ids);
  }
}

INSTANTIATE_TEST_SUITE_P(All, StreamDecoderRandom, testing::ValuesIn(fixture_names()),
                         [](const auto& test) { return test.param; });

TEST(StreamDecoder, HoldsBackHalfACharacter) {
  const Tokenizer tokenizer = fixture_tokenizer("gpt2");
  const std::vector<int32_t> ids = tokenizer.encode("a\U0001F600b");
  StreamDecoder stream(tokenizer);
  std::vector<std::string> parts;
  for (const int32_t id : ids) parts.push_back(stream.push(id));
  ASSERT_EQ(parts.size(), 6u);
  EXPECT_EQ(parts[0], "a");
  EXPECT_EQ(parts[1] + parts[2] + parts[3], "");
  EXPECT_EQ(parts[4], "\U0001F600");
  EXPECT_EQ(parts[5], "b");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDecoder, EndsAnUnfinishedCharacter) {
  const Tokenizer tokenizer = fixture_tokenizer("gpt2");
  std::vector<int32_t> ids = tokenizer.encode("\U0001F600");
  ids.pop_back();
  StreamDecoder stream(tokenizer);
  for (const int32_t id : ids) EXPECT_EQ(stream.push(id), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
}

TEST(StreamDecoder, StripsTheSpaceOfTheFirstTokenOnly) {
  const Tokenizer tokenizer = fixture_tokenizer("llama2");
  StreamDecoder stream(tokenizer);
  std::string text;
  for (const int32_t id : tokenizer.encode("the end of the")) text += stream.push(id);
  EXPECT_EQ(text, "the end of the");  // all of it before the stream ends
}

TEST(StreamDecoder, GivesTextBeforeTheStreamEnds) {
  for (const std::string& name : fixture_names()) {
    const Tokenizer tokenizer = fixture_tokenizer(name);
    StreamDecoder stream(tokenizer);
    std::string text;
    for (const int32_t id : tokenizer.encode("one two three")) text += stream.push(id);
    EXPECT_GE(text.size(), 12u) << name;
  }
}

}  // namespace
}  // namespace roundel::test
