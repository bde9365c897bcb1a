#include "text/pre_tokenizer.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/metaspace.h"
#include "text/text_pattern.h"
#include "text/unicode.h"

namespace roundel {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class SequencePreTokenizer : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<PreTokenizer>> steps)
      : steps_(std::move(steps)) {}
  void apply(Pieces* pieces) const override {
    for (const auto& step : steps_) step->apply(pieces);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

class SplitPreTokenizer : public PreTokenizer {
 public:
  SplitPreTokenizer(TextPattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void apply(Pieces* pieces) const override {
    split_pieces(pieces, behavior_, invert_,
                 [this](std::string_view text, FoundMatch found) { pattern_.for_each(text, found); });
  }

 private:
  TextPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Each character with the property is a match of its own.
class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(bool (*property)(char32_t), SplitBehavior behavior)
      : property_(property), behavior_(behavior) {}
  void apply(Pieces* pieces) const override {
    split_pieces(pieces, behavior_, false, [this](std::string_view text, FoundMatch found) {
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        if (property_(next_code_point(text, &at))) found(begin, at);
      }
    });
  }

 private:
  bool (*property_)(char32_t);
  SplitBehavior behavior_;
};

class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex, const std::string& where)
      : add_prefix_space_(add_prefix_space) {
    if (use_regex) pattern_ = TextPattern::regex(kGpt2Pattern, where);
  }
  void apply(Pieces* pieces) const override {
    Pieces mapped;
    mapped.text.reserve(pieces->text.size() + pieces->text.size() / 2);
    mapped.list.reserve(pieces->list.size());
    std::string prefixed;
    for (const Piece& piece : pieces->list) {
      std::string_view text = pieces->view(piece);
      if (add_prefix_space_ && text[0] != ' ') {
        prefixed.assign(1, ' ');
        prefixed += text;
        text = prefixed;
      }
      map_words(text, piece.at_start, &mapped);
    }
    *pieces = std::move(mapped);
  }

 private:
  void map_words(std::string_view text, bool at_start, Pieces* mapped) const {
    size_t done = 0;
    const auto add = [&](size_t end) {
      if (end == done) return;
      const size_t begin = mapped->text.size();
      append_byte_level(text.substr(done, end - done), &mapped->text);
      mapped->list.push_back({begin, mapped->text.size(), at_start && done == 0});
      done = end;
    };
    if (pattern_) {
      pattern_->for_each(text, [&](size_t begin, size_t end) {
        add(begin);
        add(end);
      });
    }
    add(text.size());
  }

  bool add_prefix_space_;
  std::optional<TextPattern> pattern_;
};

class MetaspacePreTokenizer : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(Metaspace settings)
      : settings_(std::move(settings)), replacement_(TextPattern::literal(settings_.replacement)) {}
  void apply(Pieces* pieces) const override {
    Pieces marked;
    marked.text.reserve(pieces->text.size() + pieces->text.size() / 2);
    for (const Piece& piece : pieces->list) {
      const std::string_view text = pieces->view(piece);
      const size_t begin = marked.text.size();
      const bool wanted = settings_.prepend == Metaspace::Prepend::kAlways ||
                          (settings_.prepend == Metaspace::Prepend::kFirst && piece.at_start);
      if (wanted && text[0] != ' ' && !text.starts_with(settings_.replacement))
        marked.text += settings_.replacement;
      for (const char c : text) {
        if (c == ' ') {
          marked.text += settings_.replacement;
        } else {
          marked.text += c;
        }
      }
      marked.list.push_back({begin, marked.text.size(), piece.at_start});
    }
    *pieces = std::move(marked);
    if (settings_.split)
      split_pieces(pieces, SplitBehavior::kMergedWithNext, false,
                   [this](std::string_view text, FoundMatch found) { replacement_.for_each(text, found); });
  }

 private:
  Metaspace settings_;
  TextPattern replacement_;
};

std::unique_ptr<PreTokenizer> parse_at_depth(const Json& value, const std::string& where, int depth);

std::unique_ptr<PreTokenizer> parse_sequence(const Json& value, const std::string& where, int depth) {
  const auto list = value.find("pretokenizers");
  if (list == value.end() || !list->is_array())
    fail(ErrorCode::kInvalid, "{}: Sequence has no list pretokenizers", where);
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  for (size_t i = 0; i < list->size(); ++i)
    steps.push_back(parse_at_depth((*list)[i], fmt::format("{}.pretokenizers[{}]", where, i), depth + 1));
  return std::make_unique<SequencePreTokenizer>(std::move(steps));
}

std::unique_ptr<PreTokenizer> parse_split(const Json& value, const std::string& where) {
  if (!value.contains("pattern")) fail(ErrorCode::kInvalid, "{}: Split has no pattern", where);
  return std::make_unique<SplitPreTokenizer>(
      TextPattern::parse(value.at("pattern"), where + " Split"),
      parse_split_behavior(require_string(value, "behavior", where), where),
      optional_bool(value, "invert", where).value_or(false));
}

std::unique_ptr<PreTokenizer> parse_at_depth(const Json& value, const std::string& where, int depth) {
  if (depth > 16) fail(ErrorCode::kLimit, "{}: nested deeper than 16 levels", where);
  const std::string type = require_string(value, "type", where);
  if (type == "Sequence") return parse_sequence(value, where, depth);
  if (type == "Split") return parse_split(value, where);
  if (type == "ByteLevel")
    return std::make_unique<ByteLevelPreTokenizer>(
        optional_bool(value, "add_prefix_space", where).value_or(true),
        optional_bool(value, "use_regex", where).value_or(true), where);
  if (type == "Digits") {
    const bool individual = optional_bool(value, "individual_digits", where).value_or(false);
    return std::make_unique<CharacterSplit>(
        is_numeric, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "Metaspace") return std::make_unique<MetaspacePreTokenizer>(Metaspace::parse(value, where));
  if (type == "WhitespaceSplit") return std::make_unique<CharacterSplit>(is_space, SplitBehavior::kRemoved);
  if (type == "Whitespace")
    return std::make_unique<SplitPreTokenizer>(TextPattern::words_and_symbols(), SplitBehavior::kRemoved,
                                               true);
  if (type == "Punctuation") {
    const std::string behavior = optional_string(value, "behavior", where).value_or("Isolated");
    return std::make_unique<CharacterSplit>(is_punctuation, parse_split_behavior(behavior, where));
  }
  fail(ErrorCode::kUnsupported,
       "{}: pre-tokenizer type \"{}\" is not supported; supported are Sequence, Split, ByteLevel, Digits, "
       "Metaspace, "
       "Whitespace, WhitespaceSplit, Punctuation",
       where, type);
}

}  // namespace

std::unique_ptr<PreTokenizer> parse_pre_tokenizer(const Json& value, const std::string& where) {
  if (value.is_null()) return nullptr;
  return parse_at_depth(value, where, 0);
}

}  // namespace roundel
