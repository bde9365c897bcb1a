#include "checkpoint/gguf/vocab.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/gguf/pre_tokenizers.h"
#include "checkpoint/quoted.h"

#include "base/utf8.h"

namespace roundel {
namespace {

constexpr size_t kMaxPieceBytes =
    512;  // sentencepiece: the search for splits is quadratic in it; real ones have < 200

using Ids = std::unordered_map<std::string_view, size_t>;

class VocabReader {
 public:
  VocabReader(const GgufFile& file, const GgufModel& model) : m_(file.metadata), model_(model) {}

  GgufVocab read() {
    const std::string kind = m_.require_string("tokenizer.ggml.model");
    if (kind != "gpt2" && kind != "llama")
      fail(ErrorCode::kUnsupported,
           "{}: tokenizer.ggml.model is {}; imported are gpt2 (byte-level BPE) and llama "
           "(SentencePiece BPE)",
           m_.file(), shortened(kind));
    vocab_.sentencepiece = kind == "llama";
    vocab_.max_length = model_.context;
    read_tokens();
    read_kinds();
    drop_fillers();
    index_tokens();
    read_special();
    if (vocab_.sentencepiece) {
      read_scores();
      vocab_.merges = merges_from_scores(vocab_.tokens, vocab_.kinds, vocab_.scores);
    } else {
      vocab_.pre = m_.optional_string("tokenizer.ggml.pre").value_or("");
      find_pre_tokenizer(vocab_.pre, m_.file());  // refuses an unknown one
      read_merges();
    }
    read_switches();
    vocab_.chat_template = m_.optional_string("tokenizer.chat_template");
    return std::move(vocab_);
  }

 private:
  void read_tokens() {
    const GgufArray* tokens = m_.optional_strings("tokenizer.ggml.tokens");
    if (!tokens || tokens->count == 0)
      fail(ErrorCode::kInvalid, "{}: tokenizer.ggml.tokens is missing or empty", m_.file());
    if (tokens->count > static_cast<uint64_t>(model_.vocab))
      fail(ErrorCode::kInvalid, "{}: {} tokens, but token_embd.weight has {} rows", m_.file(), tokens->count,
           model_.vocab);
    vocab_.tokens.reserve(tokens->count);
    for (uint64_t i = 0; i < tokens->count; ++i) {
      const std::string_view token = tokens->string_at(i);
      if (!is_valid_utf8(token)) fail(ErrorCode::kInvalid, "{}: token {} is not valid UTF-8", m_.file(), i);
      if (vocab_.sentencepiece && token.size() > kMaxPieceBytes)
        fail(ErrorCode::kLimit, "{}: token {} has {} bytes, at most {} are read", m_.file(), i, token.size(),
             kMaxPieceBytes);
      vocab_.tokens.push_back(token);
    }
  }

  void read_kinds() {
    vocab_.kinds.assign(vocab_.tokens.size(), GgufTokenKind::kNormal);
    const GgufArray* kinds = m_.optional_ints("tokenizer.ggml.token_type");
    if (!kinds) return;
    check_length(*kinds, "tokenizer.ggml.token_type");
    for (uint64_t i = 0; i < kinds->count; ++i) {
      const int64_t kind = kinds->int_at(i);
      if (kind < 0 || kind > static_cast<int64_t>(GgufTokenKind::kByte))
        fail(ErrorCode::kInvalid, "{}: tokenizer.ggml.token_type of token {} is {}, expected 0 to 6",
             m_.file(), i, kind);
      vocab_.kinds[i] = static_cast<GgufTokenKind>(kind);
    }
  }

  void check_length(const GgufArray& array, const char* key) const {
    if (array.count != vocab_.tokens.size())
      fail(ErrorCode::kInvalid, "{}: {} has {} entries for {} tokens", m_.file(), key, array.count,
           vocab_.tokens.size());
  }

  // Converters fill ids without a token with "[PAD<id>]"; the checkpoint that they came from had none there.
  void drop_fillers() {
    for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
      if (vocab_.kinds[i] == GgufTokenKind::kUnused && vocab_.tokens[i] == fmt::format("[PAD{}]", i))
        vocab_.tokens[i] = {};
    }
  }

  void index_tokens() {
    ids_.reserve(vocab_.tokens.size());
    for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
      if (vocab_.tokens[i].empty()) continue;
      const auto [at, fresh] = ids_.emplace(vocab_.tokens[i], i);
      if (!fresh)
        fail(ErrorCode::kInvalid, "{}: tokens {} and {} are both \"{}\"", m_.file(), at->second, i,
             shortened(at->first));
    }
  }

  std::optional<int64_t> special(const char* name, std::optional<int64_t> otherwise = std::nullopt) const {
    const int64_t last = static_cast<int64_t>(vocab_.tokens.size()) - 1;
    auto id = m_.optional_int(fmt::format("tokenizer.ggml.{}_token_id", name), 0, last);
    if (!id && otherwise && *otherwise <= last) id = otherwise;
    if (id && vocab_.tokens[static_cast<size_t>(*id)].empty())
      fail(ErrorCode::kInvalid, "{}: tokenizer.ggml.{}_token_id is {}, and that token is empty", m_.file(),
           name, *id);
    return id;
  }

  // The ends of a turn and of a message in chats; where the file does not name them, by their usual spellings.
  std::optional<int64_t> stop(const char* name, std::initializer_list<const char*> spellings) const {
    if (const auto id = special(name)) return id;
    for (const char* spelling : spellings) {
      const auto at = ids_.find(spelling);
      if (at != ids_.end() && vocab_.kinds[at->second] != GgufTokenKind::kNormal)
        return static_cast<int64_t>(at->second);
    }
    return std::nullopt;
  }

  void read_special() {
    using Default = std::optional<int64_t>;  // where a SentencePiece file says nothing
    const bool sp = vocab_.sentencepiece;
    vocab_.unk = special("unknown", sp ? Default(0) : Default());
    vocab_.bos = special("bos", sp ? Default(1) : Default());
    vocab_.eos = special("eos", sp ? Default(2) : Default());
    vocab_.pad = special("padding");
    for (const auto& id : {vocab_.bos, vocab_.eos}) {
      GgufTokenKind* kind = id ? &vocab_.kinds[static_cast<size_t>(*id)] : nullptr;
      if (kind && *kind != GgufTokenKind::kUnknown) *kind = GgufTokenKind::kControl;
    }
    for (const auto& id : {vocab_.eos, stop("eot", {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>"}),
                           stop("eom", {"<|eom_id|>"})}) {
      if (id && std::find(vocab_.stop_ids.begin(), vocab_.stop_ids.end(), *id) == vocab_.stop_ids.end())
        vocab_.stop_ids.push_back(*id);
    }
  }

  void read_scores() {
    const GgufArray* scores = m_.optional_numbers("tokenizer.ggml.scores");
    if (!scores)
      fail(ErrorCode::kInvalid, "{}: tokenizer.ggml.scores is missing, the merges follow from it", m_.file());
    check_length(*scores, "tokenizer.ggml.scores");
    vocab_.scores.reserve(scores->count);
    for (uint64_t i = 0; i < scores->count; ++i) {
      const double score = scores->number_at(i);
      if (!std::isfinite(score))
        fail(ErrorCode::kInvalid, "{}: the score of token {} is {}", m_.file(), i, score);
      vocab_.scores.push_back(score);
    }
  }

  void read_merges() {
    const GgufArray* merges = m_.optional_strings("tokenizer.ggml.merges");
    if (!merges) fail(ErrorCode::kInvalid, "{}: tokenizer.ggml.merges is missing", m_.file());
    vocab_.merges.reserve(merges->count);
    std::string whole;
    for (uint64_t i = 0; i < merges->count; ++i) {
      const std::string_view merge = merges->string_at(i);
      const size_t space = merge.find(' ', 1);
      if (merge.empty() || space == std::string_view::npos || space + 1 == merge.size())
        fail(ErrorCode::kInvalid, "{}: merge {} is \"{}\", expected two tokens and a space between",
             m_.file(), i, shortened(merge));
      const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
      whole.assign(left).append(right);
      for (const std::string_view part : {left, right, std::string_view(whole)}) {
        if (!ids_.contains(part))
          fail(ErrorCode::kInvalid,
               "{}: merge {} (\"{}\") needs the token \"{}\", which the vocabulary lacks", m_.file(), i,
               shortened(merge), shortened(part));
      }
      vocab_.merges.emplace_back(left, right);
    }
  }

  void read_switches() {
    const bool by_default = vocab_.sentencepiece || find_pre_tokenizer(vocab_.pre, m_.file()).add_bos;
    vocab_.add_bos = m_.optional_bool("tokenizer.ggml.add_bos_token").value_or(by_default);
    vocab_.add_eos = m_.optional_bool("tokenizer.ggml.add_eos_token").value_or(false);
    vocab_.add_space_prefix =
        m_.optional_bool("tokenizer.ggml.add_space_prefix").value_or(vocab_.sentencepiece);
    if (vocab_.add_bos && !vocab_.bos)
      fail(ErrorCode::kInvalid,
           "{}: a begin token is to be added, but tokenizer.ggml.bos_token_id is missing", m_.file());
    if (vocab_.add_eos && !vocab_.eos)
      fail(ErrorCode::kInvalid, "{}: an end token is to be added, but tokenizer.ggml.eos_token_id is missing",
           m_.file());
    if (vocab_.sentencepiece && m_.optional_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false))
      fail(ErrorCode::kUnsupported,
           "{}: tokenizer.ggml.remove_extra_whitespaces is true; it is imported only when false", m_.file());
    vocab_.strip_after_special = vocab_.sentencepiece && model_.arch->name == "phi3";
  }

  const GgufMetadata& m_;
  const GgufModel& model_;
  GgufVocab vocab_;
  Ids ids_;
};

bool in_merges(GgufTokenKind kind) {
  return kind == GgufTokenKind::kUndefined || kind == GgufTokenKind::kNormal ||
         kind == GgufTokenKind::kUserDefined || kind == GgufTokenKind::kUnused;
}

}  // namespace

bool GgufVocab::is_special(size_t id) const {
  return kinds[id] == GgufTokenKind::kControl || kinds[id] == GgufTokenKind::kUnknown;
}

bool GgufVocab::is_added(size_t id) const {
  return !tokens[id].empty() && (is_special(id) || kinds[id] == GgufTokenKind::kUserDefined);
}

GgufVocab read_gguf_vocab(const GgufFile& file, const GgufModel& model) {
  return VocabReader(file, model).read();
}

std::vector<std::pair<std::string_view, std::string_view>> merges_from_scores(
    const std::vector<std::string_view>& tokens, const std::vector<GgufTokenKind>& kinds,
    const std::vector<double>& scores) {
  Ids ids;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (!tokens[i].empty() && in_merges(kinds[i])) ids.emplace(tokens[i], i);

  struct Split {
    std::string_view left, right;
    double score, left_score, right_score;
  };
  std::vector<Split> splits;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].empty() || !in_merges(kinds[i])) continue;
    const size_t first = splits.size();
    for (size_t at = 1; at < tokens[i].size(); ++at) {
      if ((static_cast<uint8_t>(tokens[i][at]) & 0xc0) == 0x80) continue;  // inside a character
      const auto left = ids.find(tokens[i].substr(0, at));
      if (left == ids.end()) continue;
      const auto right = ids.find(tokens[i].substr(at));
      if (right == ids.end()) continue;
      splits.push_back({left->first, right->first, scores[i], scores[left->second], scores[right->second]});
    }
    std::stable_sort(splits.begin() + static_cast<std::ptrdiff_t>(first), splits.end(),
                     [](const Split& a, const Split& b) {
                       return std::pair(a.left_score, a.right_score) > std::pair(b.left_score, b.right_score);
                     });
  }
  std::stable_sort(splits.begin(), splits.end(),
                   [](const Split& a, const Split& b) { return a.score > b.score; });
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  merges.reserve(splits.size());
  for (const Split& s : splits) merges.emplace_back(s.left, s.right);
  return merges;
}

}  // namespace roundel
