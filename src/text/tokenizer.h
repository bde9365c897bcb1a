// Tokenizer: tokenizer.json of Hugging Face `tokenizers` (BPE: byte-level, or SentencePiece style with byte fallback).
//
//   Tokenizer tokenizer = Tokenizer::load(folder);
//   std::vector<int32_t> ids = tokenizer.encode("Hello", {.add_special = true});
//   std::string text = tokenizer.decode(ids, {.skip_special = true});
//
// The ids and texts are those of the `tokenizers` package. A tokenizer may be used by several threads at once.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace roundel {

struct EncodeOptions {
  bool add_special = false;  // run the post-processor (begin token and the like)
};
struct DecodeOptions {
  bool skip_special = true;
};

class Tokenizer {
 public:
  // Reads folder/tokenizer.json. Everything it holds is understood or refused by name. Throws Error.
  static Tokenizer load(const std::filesystem::path& folder);
  static Tokenizer parse(std::string_view json, const std::string& name);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Added tokens written in the text are recognised, as `tokenizers` does. Invalid UTF-8 becomes U+FFFD. Throws Error
  // when a character has no token and the model has no unknown token (kInvalid), or a pattern of the file takes too many
  // steps (kLimit).
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Ids without a token are left out.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;
  int32_t id_limit() const;  // largest id + 1
  std::optional<int32_t> find(std::string_view token) const;
  std::string token(int32_t id) const;  // the stored spelling; "" for a gap
  bool is_special(int32_t id) const;

 private:
  friend class StreamDecoder;
  struct Impl;
  Tokenizer() = default;
  std::unique_ptr<Impl> impl_;
};

// Turns tokens into text as they come: never half a character, and in total the same text as decode() of all of them.
// Tokens of byte fallback in a row come out together, when another token follows: whether they are text or damage
// depends on all of them. The tokenizer must outlive the decoder.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options = {});
  StreamDecoder(StreamDecoder&&) noexcept;
  ~StreamDecoder();
  std::string push(int32_t id);
  std::string
  finish();  // what is still held back (an incomplete character becomes U+FFFD); no push() may follow

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace roundel
