#include "text/normalizer.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/text_pattern.h"
#include "text/unicode.h"

namespace roundel {
namespace {

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}
  void apply(NormalizedText* text) const override {
    for (const auto& step : steps_) step->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(NormalizedText* text) const override {
    if (!text->text.empty()) text->text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(NormalizedText* text) const override {
    const std::string& from = text->text;
    std::string to;
    size_t copied = 0;
    pattern_.for_each(from, [&](size_t begin, size_t end) {
      to.append(from, copied, begin - copied);
      to += content_;
      copied = end;
      // The replacement counts as the last character that it replaces.
      if (begin == 0 && end > 0 && (content_.empty() || end > utf8_length(from[0]))) text->at_start = false;
    });
    if (copied == 0 && to.empty()) return;
    to.append(from, copied);
    text->text = std::move(to);
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form) : form_(form) {}
  void apply(NormalizedText* text) const override { text->text = normalize_unicode(text->text, form_); }

 private:
  NormalForm form_;
};

class LowercaseNormalizer : public Normalizer {
 public:
  void apply(NormalizedText* text) const override {
    std::string lower;
    lower.reserve(text->text.size());
    for (size_t at = 0; at < text->text.size();) append_lower(&lower, next_code_point(text->text, &at));
    text->text = std::move(lower);
  }
};

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  void apply(NormalizedText* text) const override {
    std::string& s = text->text;
    size_t begin = 0, end = s.size();
    while (left_ && begin < end) {
      size_t behind = begin;
      if (!is_space(next_code_point(s, &behind))) break;
      begin = behind;
    }
    while (right_ && end > begin) {
      size_t at = previous_character(s, end);
      const size_t last = at;
      if (!is_space(next_code_point(s, &at))) break;
      end = last;
    }
    if (begin > 0) text->at_start = false;
    s = s.substr(begin, end - begin);
  }

 private:
  bool left_, right_;
};

class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(NormalizedText* text) const override {
    std::string mapped;
    mapped.reserve(text->text.size() * 2);
    append_byte_level(text->text, &mapped);
    text->text = std::move(mapped);
  }
};

std::unique_ptr<Normalizer> parse_at_depth(const Json& value, const std::string& where, int depth);

std::unique_ptr<Normalizer> parse_sequence(const Json& value, const std::string& where, int depth) {
  const auto list = value.find("normalizers");
  if (list == value.end() || !list->is_array())
    fail(ErrorCode::kInvalid, "{}: Sequence has no list normalizers", where);
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (size_t i = 0; i < list->size(); ++i)
    steps.push_back(parse_at_depth((*list)[i], fmt::format("{}.normalizers[{}]", where, i), depth + 1));
  return std::make_unique<SequenceNormalizer>(std::move(steps));
}

std::unique_ptr<Normalizer> parse_at_depth(const Json& value, const std::string& where, int depth) {
  if (depth > 16) fail(ErrorCode::kLimit, "{}: nested deeper than 16 levels", where);
  const std::string type = require_string(value, "type", where);
  if (type == "Sequence") return parse_sequence(value, where, depth);
  if (type == "Prepend") return std::make_unique<PrependNormalizer>(require_string(value, "prepend", where));
  if (type == "Replace") {
    if (!value.contains("pattern")) fail(ErrorCode::kInvalid, "{}: Replace has no pattern", where);
    return std::make_unique<ReplaceNormalizer>(TextPattern::parse(value.at("pattern"), where + " Replace"),
                                               require_string(value, "content", where));
  }
  if (type == "NFC") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfc);
  if (type == "NFD") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfd);
  if (type == "NFKC") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfkc);
  if (type == "NFKD") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<LowercaseNormalizer>();
  if (type == "Strip")
    return std::make_unique<StripNormalizer>(optional_bool(value, "strip_left", where).value_or(true),
                                             optional_bool(value, "strip_right", where).value_or(true));
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  fail(ErrorCode::kUnsupported,
       "{}: normalizer type \"{}\" is not supported; supported are Sequence, Prepend, Replace, NFC, NFD, "
       "NFKC, NFKD, "
       "Lowercase, Strip, ByteLevel",
       where, type);
}

}  // namespace

std::unique_ptr<Normalizer> parse_normalizer(const Json& value, const std::string& where) {
  if (value.is_null()) return nullptr;
  return parse_at_depth(value, where, 0);
}

}  // namespace roundel
