#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "text/tokenizer_impl.h"

namespace roundel {
namespace {

const Json& member_or_null(const Json& object, const char* field) {
  static const Json null;
  const auto it = object.find(field);
  return it == object.end() ? null : *it;
}

// Cuts nothing, or nothing but at spaces that it keeps inside of the pieces: BPE gets whole documents.
bool leaves_text_whole(const Json& pre_tokenizer) {
  if (pre_tokenizer.is_null()) return true;
  return member_or_null(pre_tokenizer, "type") == "Metaspace" &&
         member_or_null(pre_tokenizer, "split") == false;
}

void check_special_ids(const PostProcessor& post, const Bpe& bpe, const AddedTokens& added,
                       const std::string& where) {
  for (const int32_t id : post.special_ids())
    if (!bpe.vocabulary().contains(id) && !added.vocabulary().contains(id))
      fail(ErrorCode::kInvalid, "{}: inserts the id {}, which no token has", where, id);
}

}  // namespace

Tokenizer Tokenizer::parse(std::string_view json, const std::string& name) {
  const Json root = parse_json(json, name);
  if (!root.is_object()) fail(ErrorCode::kInvalid, "{}: expected an object", name);
  const std::string version = optional_string(root, "version", name).value_or("1.0");
  if (version != "1.0")
    fail(ErrorCode::kUnsupported, "{}: version \"{}\" is not supported; supported is \"1.0\"", name, version);
  if (!root.contains("model")) fail(ErrorCode::kInvalid, "{}: model is missing", name);

  const Json& pre_tokenizer = member_or_null(root, "pre_tokenizer");
  auto normalizer = parse_normalizer(member_or_null(root, "normalizer"), name + ": normalizer");
  auto split = parse_pre_tokenizer(pre_tokenizer, name + ": pre_tokenizer");
  Bpe bpe = Bpe::parse(root.at("model"), name + ": model");
  if (leaves_text_whole(pre_tokenizer)) bpe.cut_long_pieces();
  AddedTokens added =
      AddedTokens::parse(member_or_null(root, "added_tokens"), bpe.vocabulary(), normalizer.get(), name);
  const std::string where_post = name + ": post_processor";
  PostProcessor post = PostProcessor::parse(member_or_null(root, "post_processor"), where_post);
  check_special_ids(post, bpe, added, where_post);
  DecoderPlan decoder = parse_decoder(member_or_null(root, "decoder"), name + ": decoder");

  Tokenizer tokenizer;
  tokenizer.impl_.reset(new Impl{name, std::move(normalizer), std::move(split), std::move(bpe),
                                 std::move(added), std::move(post), std::move(decoder)});
  return tokenizer;
}

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer.json";
  return parse(read_text_file(path, JsonLimits{}.max_bytes), path.string());
}

}  // namespace roundel
