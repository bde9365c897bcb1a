#include "text/added_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "text/text_pattern.h"
#include "text/unicode.h"

namespace roundel {
namespace {

AddedToken read_token(const Json& value, const Normalizer* normalizer, const std::string& where) {
  AddedToken token;
  token.content = require_string(value, "content", where);
  token.id = static_cast<int32_t>(require_int(value, "id", where, 0, Vocabulary::kMaxId));
  token.special = optional_bool(value, "special", where).value_or(false);
  token.normalized = optional_bool(value, "normalized", where).value_or(!token.special);
  token.single_word = optional_bool(value, "single_word", where).value_or(false);
  token.lstrip = optional_bool(value, "lstrip", where).value_or(false);
  token.rstrip = optional_bool(value, "rstrip", where).value_or(false);
  token.normalized_content = token.content;
  if (token.normalized && normalizer) {
    NormalizedText text{token.content, false};
    normalizer->apply(&text);
    token.normalized_content = std::move(text.text);
  }
  return token;
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0) {
    size_t at = previous_character(text, begin);
    if (is_word_character(next_code_point(text, &at))) return false;
  }
  if (end == text.size()) return true;
  return !is_word_character(next_code_point(text, &end));
}

size_t skip_space_back(std::string_view text, size_t from, size_t limit) {
  while (from > limit) {
    size_t at = previous_character(text, from);
    const size_t begin = at;
    if (begin < limit || !is_space(next_code_point(text, &at))) break;
    from = begin;
  }
  return from;
}

size_t skip_space(std::string_view text, size_t from) {
  while (from < text.size()) {
    size_t behind = from;
    if (!is_space(next_code_point(text, &behind))) break;
    from = behind;
  }
  return from;
}

}  // namespace

AddedTokens AddedTokens::parse(const Json& list, const Vocabulary& model, const Normalizer* normalizer,
                               const std::string& where) {
  AddedTokens added;
  if (!list.is_null() && !list.is_array()) fail(ErrorCode::kInvalid, "{}: added_tokens is not a list", where);
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where_token = fmt::format("{}: added_tokens[{}]", where, i);
    AddedToken token = read_token(list[i], normalizer, where_token);
    if (!token.content.empty()) added.add(std::move(token), model, where_token);
  }
  added.build_tries();
  return added;
}

void AddedTokens::add(AddedToken token, const Vocabulary& model, const std::string& where) {
  if (const auto id = model.find(token.content); id && *id != token.id)
    fail(ErrorCode::kInvalid, "{}: token \"{}\" has the id {}, in model.vocab it has {}", where,
         token.content, token.id, *id);
  if (model.contains(token.id) && model.token(token.id) != token.content)
    fail(ErrorCode::kInvalid, "{}: the id {} of token \"{}\" belongs to \"{}\" in model.vocab", where,
         token.id, token.content, model.token(token.id));
  vocabulary_.add(token.content, token.id, where);
  if (token.special) specials_.insert(token.content);
  tokens_[token.id] = std::move(token);
}

void AddedTokens::build_tries() {
  std::vector<std::pair<std::string, int32_t>> raw, normalized;
  for (int32_t id = 0; id < vocabulary_.id_limit(); ++id) {
    const AddedToken* token = find(id);
    if (!token) continue;
    if (token->normalized) {
      normalized.emplace_back(token->normalized_content, id);
    } else {
      raw.emplace_back(token->content, id);
    }
  }
  raw_ = TokenTrie(std::move(raw));
  normalized_ = TokenTrie(std::move(normalized));
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto it = tokens_.find(id);
  return it == tokens_.end() ? nullptr : &it->second;
}

void AddedTokens::split(std::string_view text, Stage stage, std::vector<Part>* parts) const {
  parts->clear();
  const TokenTrie& trie = stage == Stage::kRaw ? raw_ : normalized_;
  size_t done = 0;
  size_t space_end = 0;  // of the run of spaces that the last rstrip skipped
  for (size_t at = trie.empty() ? text.size() : trie.next_candidate(text, 0); at < text.size();
       at = trie.next_candidate(text, at)) {
    const auto match = trie.longest_at(text, at);
    if (!match) {
      at += utf8_length(text[at]);
      continue;
    }
    size_t begin = at;
    size_t end = at += match->length;
    const AddedToken& token = tokens_.at(match->value);
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(skip_space_back(text, begin, std::min(done, begin)), done);
    if (token.rstrip) end = space_end = end < space_end ? space_end : skip_space(text, end);
    if (done < begin) parts->push_back({done, begin, -1});
    parts->push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) parts->push_back({done, text.size(), -1});
}

}  // namespace roundel
