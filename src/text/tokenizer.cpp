#include "text/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_impl.h"

namespace roundel {

Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

// From a text without raw added tokens to ids.
void Tokenizer::Impl::encode_text(NormalizedText text, Bpe::Scratch* scratch,
                                  std::vector<int32_t>* ids) const {
  if (normalizer) normalizer->apply(&text);
  std::vector<AddedTokens::Part> parts;
  added.split(text.text, AddedTokens::Stage::kNormalized, &parts);
  const bool whole = parts.size() == 1 && parts[0].id < 0;
  for (const AddedTokens::Part& part : parts) {
    if (part.id >= 0) {
      ids->push_back(part.id);
      continue;
    }
    Pieces pieces;
    pieces.text = whole ? std::move(text.text) : text.text.substr(part.begin, part.end - part.begin);
    pieces.list = {{0, pieces.text.size(), text.at_start && part.begin == 0}};
    if (pre_tokenizer) pre_tokenizer->apply(&pieces);
    for (const Piece& piece : pieces.list) bpe.encode(pieces.view(piece), scratch, ids);
  }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = replace_invalid_utf8(text);
    text = repaired;
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  std::vector<AddedTokens::Part> parts;
  impl_->added.split(text, AddedTokens::Stage::kRaw, &parts);
  auto scratch = impl_->scratches.take();
  try {
    for (const AddedTokens::Part& part : parts) {
      if (part.id >= 0) {
        ids.push_back(part.id);
      } else {
        const std::string_view piece = text.substr(part.begin, part.end - part.begin);
        impl_->encode_text({std::string(piece), part.begin == 0}, scratch.get(), &ids);
      }
    }
  } catch (Error& e) {
    e.add_context(impl_->name);
    throw;
  }
  impl_->scratches.give_back(std::move(scratch));
  return impl_->post_processor.apply(std::move(ids), options.add_special);
}

const std::string* Tokenizer::Impl::decoded_token(int32_t id, const DecodeOptions& options) const {
  const std::string* token = nullptr;
  if (const AddedToken* a = added.find(id)) {
    token = &a->normalized_content;
  } else if (bpe.vocabulary().contains(id)) {
    token = &bpe.vocabulary().token(id);
  }
  if (token && options.skip_special && added.is_special(*token)) return nullptr;
  return token;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  DecodeChain chain(impl_->decoder);
  for (const int32_t id : ids)
    if (const std::string* token = impl_->decoded_token(id, options)) chain.token(*token);
  chain.finish();
  return chain.take();
}

int32_t Tokenizer::id_limit() const {
  return std::max(impl_->bpe.vocabulary().id_limit(), impl_->added.vocabulary().id_limit());
}

std::optional<int32_t> Tokenizer::find(std::string_view token) const {
  if (const auto id = impl_->added.vocabulary().find(token)) return id;
  return impl_->bpe.vocabulary().find(token);
}

std::string Tokenizer::token(int32_t id) const {
  if (const AddedToken* added = impl_->added.find(id)) return added->content;
  return impl_->bpe.vocabulary().token(id);
}

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* added = impl_->added.find(id);
  return added && added->special;
}

}  // namespace roundel
