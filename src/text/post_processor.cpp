#include "text/post_processor.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/vocabulary.h"

namespace roundel {
namespace {

const Json& member(const Json& object, const char* field, const std::string& where) {
  if (!object.is_object())
    fail(ErrorCode::kInvalid, "{}: expected an object that holds \"{}\"", where, field);
  const auto it = object.find(field);
  if (it == object.end()) fail(ErrorCode::kInvalid, "{}: {} is missing", where, field);
  return *it;
}

std::vector<int32_t> ids_of_special(const Json& special_tokens, const std::string& name,
                                    const std::string& where) {
  const Json& list = member(member(special_tokens, name.c_str(), where + ".special_tokens"), "ids", where);
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > static_cast<uint64_t>(Vocabulary::kMaxId))
      fail(ErrorCode::kInvalid, "{}.special_tokens: \"{}\" has an id that is no number from 0 to {}", where,
           name, Vocabulary::kMaxId);
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

}  // namespace

PostProcessor PostProcessor::parse(const Json& value, const std::string& where) {
  PostProcessor post;
  if (!value.is_null()) post.read(value, where, 0);
  return post;
}

void PostProcessor::read(const Json& value, const std::string& where, int depth) {
  if (depth > 16) fail(ErrorCode::kLimit, "{}: nested deeper than 16 levels", where);
  const std::string type = require_string(value, "type", where);
  if (type == "ByteLevel") return;
  if (type == "TemplateProcessing") return read_template(value, where);
  if (type != "Sequence")
    fail(ErrorCode::kUnsupported,
         "{}: post-processor type \"{}\" is not supported; supported are TemplateProcessing, ByteLevel, "
         "Sequence",
         where, type);
  const Json& list = member(value, "processors", where);
  if (!list.is_array()) fail(ErrorCode::kInvalid, "{}: processors is not a list", where);
  for (size_t i = 0; i < list.size(); ++i)
    read(list[i], fmt::format("{}.processors[{}]", where, i), depth + 1);
}

void PostProcessor::read_template(const Json& value, const std::string& where) {
  if (has_template_)
    fail(ErrorCode::kUnsupported, "{}: more than one TemplateProcessing is not supported", where);
  has_template_ = true;
  const Json& pieces = member(value, "single", where);
  if (!pieces.is_array()) fail(ErrorCode::kInvalid, "{}: single is not a list", where);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string where_piece = fmt::format("{}.single[{}]", where, i);
    if (!pieces[i].is_object() || pieces[i].size() != 1)
      fail(ErrorCode::kInvalid, "{}: expected {{\"Sequence\": ..}} or {{\"SpecialToken\": ..}}", where_piece);
    const std::string& kind = pieces[i].begin().key();
    const std::string id = require_string(pieces[i].begin().value(), "id", where_piece);
    if (kind == "Sequence" && id == "A") {
      parts_.push_back({true, {}});
    } else if (kind == "SpecialToken") {
      parts_.push_back({false, ids_of_special(member(value, "special_tokens", where), id, where)});
      special_ids_.insert(special_ids_.end(), parts_.back().ids.begin(), parts_.back().ids.end());
    } else {
      fail(ErrorCode::kInvalid, "{}: {} \"{}\", expected Sequence \"A\" or a SpecialToken", where_piece, kind,
           id);
    }
  }
}

std::vector<int32_t> PostProcessor::apply(std::vector<int32_t> ids, bool add_special) const {
  if (!has_template_) return ids;
  std::vector<int32_t> out;
  out.reserve(ids.size() + special_ids_.size());
  for (const Part& part : parts_) {
    if (part.is_text) {
      out.insert(out.end(), ids.begin(), ids.end());
    } else if (add_special) {
      out.insert(out.end(), part.ids.begin(), part.ids.end());
    }
  }
  return out;
}

}  // namespace roundel
