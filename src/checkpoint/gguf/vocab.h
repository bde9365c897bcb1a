// The tokenizer of a GGUF file, read and checked: pieces, kinds, merges or scores, and special tokens.
//
//   GgufVocab vocab = read_gguf_vocab(file, model);
//   std::string_view begin = vocab.tokens[*vocab.bos];
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/model.h"

namespace roundel {

// tokenizer.ggml.token_type
enum class GgufTokenKind : uint8_t { kUndefined, kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

// Views point into the GgufFile, which must outlive it.
struct GgufVocab {
  bool sentencepiece = false;            // else byte-level BPE
  std::string pre;                       // byte-level: which pre-tokenizer
  std::vector<std::string_view> tokens;  // "" where the id has none
  std::vector<GgufTokenKind> kinds;
  std::vector<double> scores;                                         // sentencepiece
  std::vector<std::pair<std::string_view, std::string_view>> merges;  // both kinds, best first
  std::optional<int64_t> bos, eos, pad, unk;
  std::vector<int64_t> stop_ids;  // eos, and the ends of a turn and of a message where these are others
  bool add_bos = false, add_eos = false, add_space_prefix = false;
  bool strip_after_special = false;  // phi3: white space after a special token belongs to it
  std::optional<std::string> chat_template;
  int64_t max_length = 0;

  // Written by the user and found before anything else; special ones are hidden in decoded text.
  bool is_added(size_t id) const;
  bool is_special(size_t id) const;
};

// Throws Error(kUnsupported) for a kind of tokenizer or pre-tokenizer that is not imported, naming it; Error(kInvalid).
GgufVocab read_gguf_vocab(const GgufFile& file, const GgufModel& model);

// The merges of a SentencePiece BPE model, which stores scores only: every way to split a piece into two pieces, those
// of the best piece first; among the ways to split one piece the one with the best parts first.
std::vector<std::pair<std::string_view, std::string_view>> merges_from_scores(
    const std::vector<std::string_view>& tokens, const std::vector<GgufTokenKind>& kinds,
    const std::vector<double>& scores);

}  // namespace roundel
