// Calibration data: which tokens become which sample, and what is refused.
#include "quantize/calibration_data.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/error.h"
#include "text/tokenizer.h"

namespace roundel {
namespace {

// Letters are tokens: a is 0, z is 25; space is 26, a newline 27, digits have no token.
Tokenizer letters() {
  std::string vocab;
  for (int i = 0; i < 26; ++i) vocab += fmt::format("\"{}\": {}, ", static_cast<char>('a' + i), i);
  return Tokenizer::parse(R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "unk_token": "?", "vocab": {)" +
                              vocab + R"(" ": 26, "\n": 27, "?": 28}, "merges": []}})",
                          "letters");
}

class CalibrationDataTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() /
        fmt::format("roundel_calibration_{}", testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  CalibrationData read(const std::filesystem::path& path, int64_t samples, int64_t seq_len,
                       std::optional<uint64_t> seed = std::nullopt) {
    CalibrationLimits limits{.vocab_size = vocab_, .max_position = 4096, .template_folder = folder_};
    limits.max_line_bytes = 4 << 20;
    limits.max_text_bytes = 32 << 20;
    return read_calibration_data({path, samples, seq_len, seed}, tokenizer_, limits);
  }
  std::string refusal(const std::string& name, const std::string& text, int64_t seq_len = 4,
                      std::optional<uint64_t> seed = std::nullopt) {
    try {
      read(file(name, text), 8, seq_len, seed);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  static void expect_words(const std::string& text, const std::vector<std::string>& words) {
    for (const std::string& word : words)
      EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
  }

  std::filesystem::path folder_;
  int64_t vocab_ = 29;
  Tokenizer tokenizer_ = letters();
};

using Ids = std::vector<int32_t>;

TEST_F(CalibrationDataTest, TextIsCutInOrder) {
  const CalibrationData d = read(file("a.txt", "abcdefghij"), 2, 3);
  ASSERT_EQ(d.samples.size(), 2u);
  EXPECT_EQ(d.samples[0], (Ids{0, 1, 2}));
  EXPECT_EQ(d.samples[1], (Ids{3, 4, 5}));
  EXPECT_EQ(d.tokens, 6);
  EXPECT_EQ(d.kind, "text");
}

TEST_F(CalibrationDataTest, TakesWhatThereIs) {
  EXPECT_EQ(read(file("a.txt", "abcdefghij"), 100, 3).samples.size(), 3u);
  EXPECT_EQ(read(file("b.txt", "abc"), 1, 3).samples.size(), 1u);
}

TEST_F(CalibrationDataTest, ShuffleIsAPermutationOfTheWindows) {
  std::string text;
  for (int i = 0; i < 26; ++i) text += std::string(4, static_cast<char>('a' + i));
  const CalibrationData all = read(file("a.txt", text), 26, 4, 7);
  std::set<int32_t> seen;
  bool moved = false;
  for (size_t i = 0; i < all.samples.size(); ++i) {
    EXPECT_EQ(all.samples[i], Ids(4, all.samples[i][0]));
    seen.insert(all.samples[i][0]);
    moved = moved || all.samples[i][0] != static_cast<int32_t>(i);
  }
  EXPECT_EQ(seen.size(), 26u);
  EXPECT_TRUE(moved);
  const CalibrationData some = read(folder_ / "a.txt", 5, 4, 7);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(some.samples[i], all.samples[i]);
  EXPECT_NE(read(folder_ / "a.txt", 26, 4, 8).samples, all.samples);
  EXPECT_NE(some.fingerprint, all.fingerprint);
}

TEST_F(CalibrationDataTest, LongTextIsReadAsFarAsNeeded) {
  std::string text;  // 20 MB: more than the first piece
  for (int i = 0; i < 20 << 10; ++i) {
    text += std::string(1023, static_cast<char>('a' + i % 26));
    text += '\n';
  }
  const CalibrationData few = read(file("long.txt", text), 2, 1024);
  EXPECT_EQ(few.samples[1][0], 1);
  EXPECT_EQ(few.samples[1][1023], 27);
  const CalibrationData many = read(folder_ / "long.txt", 10000, 1024);
  ASSERT_EQ(many.samples.size(), 10000u);
  for (int i = 0; i < 10000; ++i) ASSERT_EQ(many.samples[static_cast<size_t>(i)][5], i % 26);
}

TEST_F(CalibrationDataTest, LinesAreSamples) {
  const CalibrationData d = read(
      file("a.jsonl", "{\"text\": \"abc\"}\n\n{\"text\": \"\"}\r\n{\"text\": \"abcdefgh\", \"x\": 1}"), 9, 4);
  ASSERT_EQ(d.samples.size(), 2u);
  EXPECT_EQ(d.samples[0], (Ids{0, 1, 2}));
  EXPECT_EQ(d.samples[1], (Ids{0, 1, 2, 3}));
  EXPECT_EQ(d.cut_lines, 1);
  EXPECT_EQ(d.empty_lines, 1);
  EXPECT_EQ(d.kind, "jsonl");
  EXPECT_EQ(read(folder_ / "a.jsonl", 1, 4).samples.size(), 1u);
}

TEST_F(CalibrationDataTest, ConversationsGoThroughTheTemplate) {
  file("chat_template.jinja", "{% for m in messages %}{{ m['role'][0] + ' ' + m['content'] }}{% endfor %}");
  const CalibrationData d = read(
      file("a.jsonl",
           R"({"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "c"}]})"),
      1, 9);
  EXPECT_EQ(d.samples[0], (Ids{20, 26, 0, 1, 0, 26, 2}));
}

TEST_F(CalibrationDataTest, ShuffledLinesAreAPermutation) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += fmt::format("{{\"text\": \"{}\"}}\n\n", static_cast<char>('a' + i));
  const CalibrationData d = read(file("a.jsonl", text), 20, 4, 3);
  std::set<int32_t> seen;
  for (const Ids& s : d.samples) seen.insert(s[0]);
  EXPECT_EQ(seen.size(), 20u);
  EXPECT_NE(d.samples[0][0] + d.samples[1][0] + d.samples[2][0], 3);
}

TEST_F(CalibrationDataTest, RefusesTooLittle) {
  expect_words(refusal("a.txt", ""), {"a.txt", "empty"});
  expect_words(refusal("a.txt", "abc"), {"a.txt", "3 tokens", "sample of 4", "--seq-len"});
  expect_words(refusal("a.jsonl", "{\"text\": \"\"}\n"), {"no line gives a token"});
  expect_words(refusal("a.jsonl", "\n \n"), {"no line gives a token"});
  EXPECT_THROW(read(folder_ / "none.txt", 1, 4), Error);
  EXPECT_THROW(read(folder_, 1, 4), Error);
}

TEST_F(CalibrationDataTest, NamesLineAndField) {
  const std::string good = "{\"text\": \"abcd\"}\n";
  expect_words(refusal("a.jsonl", good + "\n{\"text\": 5}\n"), {"a.jsonl: line 3", "\"text\"", "number"});
  expect_words(refusal("a.jsonl", good + "{\"txt\": \"a\"}\n"), {"line 2", "neither", "txt", "meant"});
  expect_words(refusal("a.jsonl", good + "{\"prompt\": 1, \"answer\": 2}\n"), {"line 2", "prompt", "answer"});
  expect_words(refusal("a.jsonl", good + "[1]\n"), {"line 2", "array", "object"});
  expect_words(refusal("a.jsonl", good + "{\"text\": \"a\"\n"), {"line 2", "JSON", "column"});
  expect_words(refusal("a.jsonl", "{\n\"text\": \"a\"}\n"), {"line 1", "one object a line"});
  expect_words(refusal("a.jsonl", good + "{\"messages\": []}\n"), {"line 2", "messages", "empty"});
  expect_words(
      refusal("a.jsonl",
              good + "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"content\": \"\"}]}\n"),
      {"line 2", "messages[1]", "role"});
  expect_words(refusal("a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n"),
               {"chat template"});
  file("chat_template.jinja", "{{ raise_exception('only in pairs') }}");
  expect_words(refusal("a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n"),
               {"a.jsonl: line 1", "only in pairs"});
}

TEST_F(CalibrationDataTest, RefusesHugeLinesAndBinaries) {
  expect_words(refusal("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"" + std::string(5 << 20, 'a') + "\"}\n"),
               {"line 2", "longer than"});
  expect_words(refusal("a.txt", std::string("a\0b\0c\0", 6)), {"a.txt", "not text"});
  expect_words(refusal("a.parquet", "PAR1abcdefgh"), {"not text", "parquet"});
}

TEST_F(CalibrationDataTest, RefusesWhatTheModelCannotTake) {
  expect_words(refusal("a.txt", "abcdefgh", 5000), {"--seq-len", "4096"});
  vocab_ = 3;
  expect_words(refusal("a.txt", "abcd"), {"token 3", "\"d\"", "vocabulary of 3"});
}

TEST_F(CalibrationDataTest, RecordNamesWhatWasUsed) {
  const CalibrationData d = read(file("a.txt", "abcdefghij"), 2, 3, 5);
  expect_words(describe(d), {"a.txt", "2 samples", "6 tokens", "seed 5"});
  expect_words(calibration_record(d), {"a.txt", "\"tokens\":6", "\"seed\":5", "fingerprint"});
}

}  // namespace
}  // namespace roundel
