#include "text/bpe.h"

#include <limits>

#include "base/error.h"
#include "base/utf8.h"

namespace roundel {
namespace {

constexpr size_t kMaxKnownBytes = 128;
constexpr size_t kMaxKnownPieces = 1 << 16;
constexpr size_t kCutFrom = 16;  // shorter pieces are looked up whole

uint64_t character_pair(char32_t left, char32_t right) {
  return uint64_t{left} << 32 | right;
}

char32_t code_point(std::string_view character) {
  size_t at = 0;
  return next_code_point(character, &at);
}

}  // namespace

void Bpe::encode(std::string_view piece, Scratch* scratch, std::vector<int32_t>* ids) const {
  if (piece.empty()) return;
  if (piece.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    fail(ErrorCode::kLimit, "a piece of {} bytes is too long to be tokenized", piece.size());
  if (ignore_merges_) {
    if (const auto id = vocabulary_.find(piece)) {
      ids->push_back(*id);
      return;
    }
  }
  if (!cut_long_pieces_ || piece.size() < kCutFrom) return encode_cached(piece, scratch, ids);
  size_t begin = 0;
  std::string_view last = piece.substr(0, utf8_length(piece[0]));
  for (size_t at = last.size(); at < piece.size();) {
    const std::string_view next = piece.substr(at, utf8_length(piece[at]));
    if (can_cut(last, next)) {
      encode_cached(piece.substr(begin, at - begin), scratch, ids);
      begin = at;
    }
    last = next;
    at += next.size();
  }
  encode_cached(piece.substr(begin), scratch, ids);
}

// Characters without a token of their own are left together with their neighbours: unknown ones may fuse.
bool Bpe::can_cut(std::string_view left, std::string_view right) const {
  return !joined_characters_.contains(character_pair(code_point(left), code_point(right))) &&
         character_id(left) >= 0 && character_id(right) >= 0;
}

void Bpe::encode_cached(std::string_view piece, Scratch* scratch, std::vector<int32_t>* ids) const {
  const bool short_enough = piece.size() <= kMaxKnownBytes;
  if (short_enough) {
    if (const auto it = scratch->known.find(piece); it != scratch->known.end()) {
      const auto begin = scratch->known_ids.begin() + it->second.begin;
      ids->insert(ids->end(), begin, begin + it->second.count);
      return;
    }
  }
  read_symbols(piece, scratch);
  merge_symbols(scratch);
  const size_t before = ids->size();
  for (const Scratch::Symbol& symbol : scratch->symbols)
    if (symbol.id >= 0) ids->push_back(symbol.id);
  if (!short_enough) return;
  if (scratch->known.size() >= kMaxKnownPieces) {
    scratch->known.clear();
    scratch->known_ids.clear();
  }
  scratch->known.emplace(piece, Scratch::Ids{static_cast<uint32_t>(scratch->known_ids.size()),
                                             static_cast<uint32_t>(ids->size() - before)});
  scratch->known_ids.insert(scratch->known_ids.end(), ids->begin() + static_cast<ptrdiff_t>(before),
                            ids->end());
}

int32_t Bpe::character_id(std::string_view character) const {
  if (character.size() <= 2) return direct_[code_point(character)];
  return vocabulary_.find(character).value_or(-1);
}

bool Bpe::append_bytes(std::string_view character, Scratch* scratch) const {
  for (const char b : character)
    if (byte_ids_[static_cast<unsigned char>(b)] < 0) return false;
  for (const char b : character) scratch->symbols.push_back({byte_ids_[static_cast<unsigned char>(b)], 0, 0});
  return true;
}

// One symbol for each character; an unknown one is held back, as the next may fuse with it.
void Bpe::read_symbols(std::string_view piece, Scratch* scratch) const {
  auto& symbols = scratch->symbols;
  symbols.clear();
  symbols.reserve(piece.size());
  bool unknown = false;
  for (size_t at = 0; at < piece.size();) {
    const std::string_view character = piece.substr(at, utf8_length(piece[at]));
    at += character.size();
    const int32_t id = character_id(character);
    if (id >= 0) {
      if (unknown) symbols.push_back({unknown_id_, 0, 0});
      unknown = false;
      symbols.push_back({id, 0, 0});
      continue;
    }
    if (byte_fallback_ && append_bytes(character, scratch)) continue;
    if (unknown_token_.empty()) continue;
    if (unknown_id_ < 0)
      fail(ErrorCode::kInvalid, "the text holds \"{}\", which has no token, and neither has unk_token \"{}\"",
           character, unknown_token_);
    if (unknown && !fuse_unknown_) symbols.push_back({unknown_id_, 0, 0});
    unknown = true;
  }
  if (unknown) symbols.push_back({unknown_id_, 0, 0});
  const auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[static_cast<size_t>(i)].previous = i - 1;
    symbols[static_cast<size_t>(i)].next = i + 1 < count ? i + 1 : -1;
  }
}

void Bpe::queue_pair(int32_t left, int32_t right, Scratch* scratch) const {
  const auto& symbols = scratch->symbols;
  const Merge* merge =
      merges_.find(symbols[static_cast<size_t>(left)].id, symbols[static_cast<size_t>(right)].id);
  if (merge) scratch->queue.push(merge->rank, static_cast<uint32_t>(left));
}

void Bpe::merge_symbols(Scratch* scratch) const {
  auto& symbols = scratch->symbols;
  scratch->queue.start(joined_by_rank_.size());
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    queue_pair(static_cast<int32_t>(i), static_cast<int32_t>(i + 1), scratch);
  while (const auto next = scratch->queue.pop()) {
    const auto at = static_cast<int32_t>(next->position);
    Scratch::Symbol& left = symbols[next->position];
    if (left.id < 0 || left.next < 0) continue;
    Scratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    // The pair that was queued may be gone; what stands there now counts when it gives the same token.
    const int32_t joined = joined_by_rank_[next->rank];
    const Merge* merge = merges_.find(left.id, right.id);
    if (!merge || merge->joined != joined) continue;
    left.id = joined;
    left.next = right.next;
    right.id = -1;
    if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = at;
    if (left.previous >= 0) queue_pair(left.previous, at, scratch);
    if (left.next >= 0) queue_pair(at, left.next, scratch);
  }
}

void Bpe::add_merge(std::string_view left, std::string_view right, const std::string& where) {
  const auto id_of = [&](std::string_view token) {
    const auto id = vocabulary_.find(token);
    if (!id)
      fail(ErrorCode::kInvalid, "{} (\"{}\", \"{}\"): \"{}\" is not in the vocabulary", where, left, right,
           token);
    return *id;
  };
  if (left.empty() || right.empty())
    fail(ErrorCode::kInvalid, "{} (\"{}\", \"{}\"): a merge of an empty token", where, left, right);
  const int32_t left_id = id_of(left), right_id = id_of(right);
  const int32_t joined = id_of(std::string(left).append(right));
  merges_.add(left_id, right_id, static_cast<uint32_t>(joined_by_rank_.size()), joined);
  joined_by_rank_.push_back(joined);
  joined_characters_.insert(
      character_pair(code_point(left.substr(previous_character(left, left.size()))), code_point(right)));
}

void Bpe::find_single_characters() {
  direct_.fill(-1);
  byte_ids_.fill(-1);
  for (int32_t id = 0; id < vocabulary_.id_limit(); ++id) {
    const std::string& token = vocabulary_.token(id);
    if (!token.empty() && token.size() <= 2 && token.size() == utf8_length(token[0]))
      direct_[code_point(token)] = id;
  }
  for (size_t b = 0; b < 256; ++b) byte_ids_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b)).value_or(-1);
  if (!unknown_token_.empty()) unknown_id_ = vocabulary_.find(unknown_token_).value_or(-1);
}

}  // namespace roundel
