#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/bpe.h"

namespace roundel {
namespace {

// "left right", the older way to write a merge.
std::pair<std::string_view, std::string_view> split_merge(std::string_view text, const std::string& where) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
    fail(ErrorCode::kInvalid, "{} is \"{}\", expected two tokens with one space between them", where, text);
  return {text.substr(0, space), text.substr(space + 1)};
}

bool is_string_pair(const Json& value) {
  return value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string();
}

}  // namespace

Bpe Bpe::parse(const Json& model, const std::string& where) {
  if (!model.is_object()) fail(ErrorCode::kInvalid, "{}: expected an object", where);
  const std::string type = optional_string(model, "type", where).value_or("BPE");
  if (type != "BPE")
    fail(ErrorCode::kUnsupported, "{}: model type \"{}\" is not supported; supported is BPE", where, type);
  const auto merges = model.find("merges");
  if (merges == model.end() || !merges->is_array()) fail(ErrorCode::kInvalid, "{}: no list merges", where);
  Bpe bpe(merges->size());
  bpe.read_vocabulary(model, where);
  bpe.read_options(model, where);
  bpe.find_single_characters();
  bpe.read_merges(*merges, where);
  return bpe;
}

void Bpe::read_vocabulary(const Json& model, const std::string& where) {
  const auto vocab = model.find("vocab");
  if (vocab == model.end() || !vocab->is_object()) fail(ErrorCode::kInvalid, "{}: no object vocab", where);
  vocabulary_.reserve(vocab->size());
  const std::string where_vocab = where + ".vocab";
  for (const auto& [token, id] : vocab->items()) {
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > Vocabulary::kMaxId))
      fail(ErrorCode::kInvalid, "{}: token \"{}\" has the id {}, expected 0 to {}", where_vocab, token,
           id.dump(-1, ' ', false, Json::error_handler_t::replace), Vocabulary::kMaxId);
    vocabulary_.add(token, id.get<int64_t>(), where_vocab);
  }
}

void Bpe::read_options(const Json& model, const std::string& where) {
  if (const auto dropout = optional_number(model, "dropout", where, 0, 1).value_or(0); dropout != 0)
    fail(ErrorCode::kUnsupported, "{}: dropout is {}; tokens at random are not supported, only null or 0",
         where, dropout);
  for (const char* field : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::string text = optional_string(model, field, where).value_or("");
    if (!text.empty()) fail(ErrorCode::kUnsupported, "{}: {} \"{}\" is not supported", where, field, text);
  }
  unknown_token_ = optional_string(model, "unk_token", where).value_or("");
  fuse_unknown_ = optional_bool(model, "fuse_unk", where).value_or(false);
  byte_fallback_ = optional_bool(model, "byte_fallback", where).value_or(false);
  ignore_merges_ = optional_bool(model, "ignore_merges", where).value_or(false);
}

void Bpe::read_merges(const Json& list, const std::string& where) {
  joined_by_rank_.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& merge = list[i];
    const std::string where_merge = fmt::format("{}.merges[{}]", where, i);
    if (merge.is_string()) {
      const std::string& text = merge.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;
      const auto [left, right] = split_merge(text, where_merge);
      add_merge(left, right, where_merge);
    } else if (is_string_pair(merge)) {
      add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(), where_merge);
    } else {
      fail(ErrorCode::kInvalid, "{}: expected \"left right\" or [\"left\", \"right\"]", where_merge);
    }
  }
}

}  // namespace roundel
