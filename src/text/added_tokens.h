// Added tokens of tokenizer.json: fixed texts with an id of their own that are cut out of a text before BPE sees it.
//
//   AddedTokens added = AddedTokens::parse(json.at("added_tokens"), bpe.vocabulary(), normalizer, "tokenizer.json");
//   added.split(text, AddedTokens::Stage::kRaw, &parts);          // tokens that are matched on the text as it came
//   added.split(normalized, AddedTokens::Stage::kNormalized, &parts);
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "text/normalizer.h"
#include "text/token_trie.h"
#include "text/vocabulary.h"

namespace roundel {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  std::string normalized_content;  // what is searched for, and what decoding starts from
  bool special = false;
  bool normalized = false;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
};

class AddedTokens {
 public:
  enum class Stage { kRaw, kNormalized };
  struct Part {
    size_t begin;
    size_t end;
    int32_t id;  // -1: text between the tokens
  };

  // The list may be null. Throws Error when an id is missing, belongs to another token, or a token has two ids.
  static AddedTokens parse(const Json& list, const Vocabulary& model, const Normalizer* normalizer,
                           const std::string& where);
  const AddedToken* find(int32_t id) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  bool is_special(std::string_view content) const { return specials_.contains(std::string(content)); }

  // Replaces `parts` by the parts of the text (valid UTF-8), leftmost and longest tokens first. Linear in the text for
  // a given set of tokens.
  void split(std::string_view text, Stage stage, std::vector<Part>* parts) const;

 private:
  void add(AddedToken token, const Vocabulary& model, const std::string& where);
  void build_tries();

  Vocabulary vocabulary_;
  std::unordered_map<int32_t, AddedToken> tokens_;
  std::unordered_set<std::string> specials_;
  TokenTrie raw_;
  TokenTrie normalized_;
};

}  // namespace roundel
