#include "base/utf8.h"

#include <gtest/gtest.h>

namespace roundel {
namespace {

TEST(Utf8, RoundTripsEveryCodePoint) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(&text, c);
    ASSERT_TRUE(is_valid_utf8(text)) << static_cast<uint32_t>(c);
    ASSERT_EQ(utf8_length(text[0]), text.size());
    size_t at = 0;
    ASSERT_EQ(next_code_point(text, &at), c);
    ASSERT_EQ(at, text.size());
    ASSERT_EQ(previous_character(text, text.size()), 0u);
  }
}

// The examples of the Unicode standard, section 3.9, tables 3-8 to 3-11.
TEST(Utf8, ReplacesTheLongestPartsThatCouldBeginACharacter) {
  const std::string r(kReplacement);
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

TEST(Utf8, RepairsInParts) {
  const std::string text = "a\u00E9\u4F60\U0001F600\xFF\xE4\xBDz\xF0\x9F";
  for (size_t step = 1; step < 5; ++step) {
    Utf8Repair repair;
    std::string out;
    for (size_t at = 0; at < text.size(); at += step) {
      repair.push(std::string_view(text).substr(at, step), &out);
      EXPECT_TRUE(is_valid_utf8(out));
    }
    repair.finish(&out);
    EXPECT_EQ(out, replace_invalid_utf8(text));
  }
}

}  // namespace
}  // namespace roundel
