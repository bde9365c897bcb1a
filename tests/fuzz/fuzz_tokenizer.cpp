// Reads the input as a tokenizer.json. What is accepted must encode and decode without a fault, and a stream of its
// tokens must give the text of all of them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tests/fuzz/json_mutator.h"
#include "text/tokenizer.h"

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return roundel::fuzz::mutate_json_bytes(data, size, max_size, seed,
                                          {"type",
                                           "Sequence",
                                           "Split",
                                           "Regex",
                                           "String",
                                           "ByteLevel",
                                           "Metaspace",
                                           "Digits",
                                           "Punctuation",
                                           "Strip",
                                           "Replace",
                                           "NFC",
                                           "NFKD",
                                           "Lowercase",
                                           "Prepend",
                                           "Whitespace",
                                           "ByteFallback",
                                           "Fuse",
                                           "Isolated",
                                           "Removed",
                                           "Contiguous",
                                           "MergedWithNext",
                                           "pattern",
                                           "content",
                                           "normalizer",
                                           "decoder",
                                           "normalizers",
                                           "decoders",
                                           "vocab",
                                           "merges",
                                           "a",
                                           "<0x41>",
                                           "a b",
                                           "\\s+(?!\\S)|\\p{L}+",
                                           "[^\\W&&[a-c]]",
                                           "(?i:'s)|\\p{N}{1,3}+",
                                           "special",
                                           "single_word",
                                           "rstrip"});
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kText = "a <s>b 12\u00E9e\u0301 'S\n\t\xFF \u4F60\U0001F600<0x41> \u2581 ab  ";
  try {
    const auto tokenizer = roundel::Tokenizer::parse(
        std::string_view(reinterpret_cast<const char*>(data), size), "tokenizer.json");
    std::vector<int32_t> ids = tokenizer.encode(kText, {.add_special = true});
    for (const int32_t id : ids)
      if (id < 0 || id >= tokenizer.id_limit()) __builtin_trap();
    for (int32_t id = -1; id <= tokenizer.id_limit() && id < 300; ++id) ids.push_back(id);
    roundel::StreamDecoder stream(tokenizer, {.skip_special = false});
    std::string text;
    for (const int32_t id : ids) text += stream.push(id);
    if (text + stream.finish() != tokenizer.decode(ids, {.skip_special = false})) __builtin_trap();
  } catch (const roundel::Error&) {
  }
  return 0;
}
