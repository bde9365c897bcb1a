#include "checkpoint/safetensors_index.h"

#include <gtest/gtest.h>

#include "checkpoint/quoted.h"
#include "support.h"

namespace roundel {
namespace {

SafetensorsIndex parse(const std::string& text) {
  return parse_safetensors_index(text, "index.json");
}

TEST(SafetensorsIndex, NumbersShardsByName) {
  const auto index =
      parse(R"({"weight_map":{"a":"z.safetensors","b":"m.safetensors","c":"z.safetensors"},"metadata":{}})");
  EXPECT_EQ(index.shards, (std::vector<std::string>{"m.safetensors", "z.safetensors"}));
  EXPECT_EQ(index.shard_of.at("a"), 1u);
  EXPECT_EQ(index.shard_of.at("b"), 0u);
  EXPECT_FALSE(index.total_size);
}

TEST(SafetensorsIndex, TakesTotalSizeAsWritersStoreIt) {
  const std::string map = R"("weight_map":{"a":"m.safetensors"}})";
  auto total = [&](const std::string& value) {
    return parse("{\"metadata\":{\"total_size\":" + value + "}," + map).total_size;
  };
  EXPECT_EQ(total("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(total("1.5e10"), 15'000'000'000u);
  EXPECT_EQ(total("24.0"), 24u);
  for (const std::string odd : {"-1", "-1.5", "1e300", "\"24\"", "[]", "true"}) {
    EXPECT_FALSE(total(odd)) << odd;
    EXPECT_EQ(parse("{\"metadata\":{\"total_size\":" + odd + "}," + map).warnings.size(), 1u);
  }
  EXPECT_TRUE(parse("{\"metadata\":{\"total_size\":null}," + map).warnings.empty());
  EXPECT_TRUE(parse("{\"metadata\":5," + map).warnings.empty());
}

TEST(SafetensorsIndex, ListsManyProblemsButNotAll) {
  std::string text = "{\"weight_map\":{";
  for (int i = 0; i < 5000; ++i) text += fmt::format("{}\"t{:04}\":\"../x\"", i ? "," : "", i);
  const auto error = error_of([&] { parse(text + "}}"); });
  ASSERT_TRUE(error);
  const std::string message = error->what();
  EXPECT_NE(message.find("\"t0000\""), std::string::npos);
  EXPECT_NE(message.find("\"t0099\""), std::string::npos);
  EXPECT_NE(message.find("and 4900 more"), std::string::npos);
  EXPECT_LT(message.size(), 30000u);
  expect_error([] { parse("{\"weight_map\":{\"a\":\"x\x7f.safetensors\"}}"); },
               {"\"a\"", "control characters"});
  expect_error([] { parse("{\"weight_map\":null}"); }, {"weight_map"});
}

TEST(SafetensorsIndex, ShortensTextForMessages) {
  EXPECT_EQ(in_quotes("model.norm\n"), "\"model.norm\\x0a\"");
  EXPECT_EQ(shortened(std::string(160, 'x')), std::string(160, 'x'));
  EXPECT_EQ(shortened(std::string(161, 'x')), std::string(160, 'x') + "...");
  // Never cuts inside a character: 2 + 53 * 3 = 161 bytes, the last one would be split.
  std::string text = "ab";
  for (int i = 0; i < 60; ++i) text += "\xe2\x82\xac";
  EXPECT_EQ(shortened(text), text.substr(0, 158) + "...");
}

}  // namespace
}  // namespace roundel
