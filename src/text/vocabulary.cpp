#include "text/vocabulary.h"

#include "base/error.h"

namespace roundel {

void Vocabulary::add(const std::string& token, int64_t id, const std::string& where) {
  if (id < 0 || id > kMaxId)
    fail(ErrorCode::kInvalid, "{}: token \"{}\" has the id {}, expected 0 to {}", where, token, id, kMaxId);
  const auto [it, added] = ids_.try_emplace(token, static_cast<int32_t>(id));
  if (!added && it->second != id)
    fail(ErrorCode::kInvalid, "{}: token \"{}\" has the ids {} and {}", where, token, it->second, id);
  if (!added) return;
  const auto at = static_cast<size_t>(id);
  if (at >= tokens_.size()) tokens_.resize(at + 1);
  if (tokens_[at]) {
    const std::string other = *tokens_[at];
    ids_.erase(it);
    fail(ErrorCode::kInvalid, "{}: the id {} belongs to two tokens, \"{}\" and \"{}\"", where, id, other,
         token);
  }
  tokens_[at] = &it->first;
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  const auto it = ids_.find(token);
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

bool Vocabulary::contains(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < tokens_.size() && tokens_[static_cast<size_t>(id)];
}

const std::string& Vocabulary::token(int32_t id) const {
  static const std::string none;
  return contains(id) ? *tokens_[static_cast<size_t>(id)] : none;
}

}  // namespace roundel
