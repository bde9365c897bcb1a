#include "text/unicode.h"

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "text/byte_level.h"

namespace roundel {
namespace {

TEST(ByteLevel, IsABijection) {
  std::string bytes, mapped;
  for (int b = 0; b < 256; ++b) bytes += static_cast<char>(b);
  append_byte_level(bytes, &mapped);
  EXPECT_TRUE(is_valid_utf8(mapped));
  EXPECT_EQ(bytes_of_byte_level(mapped), bytes);
  EXPECT_EQ(bytes_of_byte_level("a b"), std::nullopt);
  EXPECT_EQ(bytes_of_byte_level("\u4F60"), std::nullopt);
  std::string space;
  append_byte_level(" \n", &space);
  EXPECT_EQ(space, "\u0120\u010A");
}

TEST(Unicode, SortsMarksOfTwoClasses) {
  EXPECT_EQ(normalize_unicode("e\u0301\u0316", NormalForm::kNfd), "e\u0316\u0301");
  EXPECT_EQ(normalize_unicode("e\u0316\u0301", NormalForm::kNfc), "\u00E9\u0316");
  EXPECT_EQ(normalize_unicode("\u1E9B\u0323", NormalForm::kNfkc), "\u1E69");
}

}  // namespace
}  // namespace roundel
