// Single normalizers, pre-tokenizers, decoders and classes of patterns against what the `tokenizers` package gives.
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "tests/text/tokenizer_fixture.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/unicode.h"

namespace roundel::test {
namespace {

const Json& parts() {
  static const Json data = tokenizer_data("parts.json");
  return data;
}

TEST(PreTokenizer, SplitsAsTokenizersDoes) {
  const auto texts = parts().at("texts").get<std::vector<std::string>>();
  ASSERT_GT(parts().at("pre_tokenizers").size(), 100u);
  for (const Json& item : parts().at("pre_tokenizers")) {
    const auto pre_tokenizer = parse_pre_tokenizer(item[0], "test");
    for (size_t i = 0; i < texts.size(); ++i) {
      Pieces pieces{texts[i], {{0, texts[i].size(), true}}};
      pre_tokenizer->apply(&pieces);
      std::vector<std::string> found;
      for (const Piece& piece : pieces.list) found.emplace_back(pieces.view(piece));
      EXPECT_EQ(found, item[1][i].get<std::vector<std::string>>()) << item[0] << " on " << Json(texts[i]);
    }
  }
}

TEST(Normalizer, ChangesTextAsTokenizersDoes) {
  const auto texts = parts().at("texts").get<std::vector<std::string>>();
  for (const Json& item : parts().at("normalizers")) {
    const auto normalizer = parse_normalizer(item[0], "test");
    for (size_t i = 0; i < texts.size(); ++i) {
      NormalizedText text{texts[i], true};
      normalizer->apply(&text);
      EXPECT_EQ(text.text, item[1][i].get<std::string>()) << item[0] << " on " << Json(texts[i]);
    }
  }
}

TEST(Normalizer, TellsMetaspaceWhetherTheFirstCharacterIsStillThere) {
  const auto texts = parts().at("texts").get<std::vector<std::string>>();
  const auto metaspace = parse_pre_tokenizer(
      Json::parse(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})"),
      "test");
  for (const Json& item : parts().at("metaspace_first_after")) {
    const auto normalizer = parse_normalizer(item[0], "test");
    for (size_t i = 0; i < texts.size(); ++i) {
      NormalizedText text{texts[i], true};
      normalizer->apply(&text);
      std::string marked;
      if (!text.text.empty()) {
        Pieces pieces{text.text, {{0, text.text.size(), text.at_start}}};
        metaspace->apply(&pieces);
        marked = pieces.text;
      }
      EXPECT_EQ(marked, item[1][i].get<std::string>()) << item[0] << " on " << Json(texts[i]);
    }
  }
}

TEST(Decoder, JoinsTokensAsTokenizersDoes) {
  const Json& tokens = parts().at("tokens");
  for (const Json& item : parts().at("decoders")) {
    const DecoderPlan plan = parse_decoder(item[0], "test");
    for (size_t i = 0; i < tokens.size(); ++i) {
      DecodeChain chain(plan);
      std::string text;
      for (const Json& token : tokens[i]) {
        chain.token(token.get<std::string>());
        text += chain.take();
        EXPECT_TRUE(is_valid_utf8(text)) << item[0];
      }
      chain.finish();
      text += chain.take();
      EXPECT_EQ(text, item[1][i].get<std::string>()) << item[0] << " of " << tokens[i];
    }
  }
}

template <class Visit>
void for_all_code_points(Visit visit) {
  for (char32_t c = 0; c < 0x110000; ++c)
    if (c < 0xD800 || c > 0xDFFF) visit(c);
}

std::vector<uint32_t> boundaries_of(bool (*is_member)(char32_t)) {
  std::vector<uint32_t> boundaries;
  for_all_code_points([&](char32_t c) {
    if (is_member(c) != (boundaries.size() % 2 == 1)) boundaries.push_back(c);
  });
  return boundaries;
}

TEST(Unicode, PropertiesAreThoseOfTokenizers) {
  const Json& properties = parts().at("properties");
  EXPECT_EQ(boundaries_of(is_punctuation), properties.at("punctuation").get<std::vector<uint32_t>>());
  EXPECT_EQ(boundaries_of(is_numeric), properties.at("numeric").get<std::vector<uint32_t>>());
  EXPECT_EQ(boundaries_of(is_word_character), properties.at("word").get<std::vector<uint32_t>>());
}

TEST(Normalizer, ChangesEveryCodePointAsTokenizersDoes) {
  for (const auto& [type, expected] : parts().at("code_points").items()) {
    const auto normalizer = parse_normalizer({{"type", type}}, "test");
    uint64_t hash = 0;
    for_all_code_points([&](char32_t c) {
      NormalizedText text;
      append_utf8(&text.text, c);
      normalizer->apply(&text);
      for (const char byte : text.text + "\n") hash = hash * 1000003 + static_cast<unsigned char>(byte) + 1;
    });
    EXPECT_EQ(std::to_string(hash), expected.get<std::string>()) << type;
  }
}

TEST(Pattern, ClassesHoldTheCodePointsOfOniguruma) {
  for (const auto& [pattern, list] : parts().at("classes").items()) {
    const TextPattern regex = TextPattern::regex("(?:" + pattern + ")+", "test");
    const auto boundaries = list.get<std::vector<uint32_t>>();
    std::string text;
    std::vector<uint32_t> code_point_at;  // for each byte of the text, and its end
    for (char32_t c = 0; c < 0x110000; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      append_utf8(&text, c);
      code_point_at.resize(text.size(), c);
    }
    code_point_at.push_back(0x110000);
    std::vector<uint32_t> found;
    regex.for_each(text, [&](size_t begin, size_t end) {
      found.push_back(code_point_at[begin]);
      if (end < text.size()) found.push_back(code_point_at[end]);
    });
    EXPECT_EQ(found, boundaries) << pattern;
  }
}

}  // namespace
}  // namespace roundel::test
