// Encodes the input with a byte-level tokenizer that has a token for each byte. Valid UTF-8 must come back as it was,
// other input as its repaired text.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"

namespace {

roundel::Tokenizer make_tokenizer() {
  using Json = nlohmann::json;
  Json vocab = Json::object();
  const auto token = [](std::string_view bytes) {
    std::string mapped;
    roundel::append_byte_level(bytes, &mapped);
    return mapped;
  };
  for (int b = 0; b < 256; ++b) vocab[token(std::string(1, static_cast<char>(b)))] = b;
  Json merges = Json::array();
  for (const auto& [left, right] :
       {std::pair{" ", "a"}, {"a", "a"}, {"aa", "aa"}, {"\xC3", "\xA9"}, {" ", " "}}) {
    vocab[token(std::string(left) + right)] = vocab.size();
    merges.push_back({token(left), token(right)});
  }
  const Json split = {
      {"type", "Split"},
      {"behavior", "Isolated"},
      {"invert", false},
      {"pattern",
       {{"Regex",
         R"((?i:'s|'ll)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+)"}}}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Json added = {{"id", 300}, {"content", "<|end|>"}, {"special", true}};
  const Json tree = {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}},
                     {"added_tokens", {added}},
                     {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
                     {"decoder", {{"type", "ByteLevel"}}}};
  return roundel::Tokenizer::parse(tree.dump(), "tokenizer.json");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const roundel::Tokenizer tokenizer = make_tokenizer();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string back = tokenizer.decode(tokenizer.encode(text), {.skip_special = false});
  if (back != roundel::replace_invalid_utf8(text)) __builtin_trap();
  if (roundel::is_valid_utf8(text) && back != text) __builtin_trap();
  return 0;
}
