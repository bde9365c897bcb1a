// Pre-tokenizers of tokenizer.json: they cut a normalized text into the pieces that BPE works on.
//
//   std::unique_ptr<PreTokenizer> split = parse_pre_tokenizer(json.at("pre_tokenizer"), "tokenizer.json: pre_tokenizer");
//   Pieces pieces{"Hello world", {{0, 11, true}}};
//   split->apply(&pieces);
#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "text/split.h"

namespace roundel {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces* pieces) const = 0;  // valid UTF-8 in and out; may change the text
};

// nullptr for null. Types: Sequence, ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit, Punctuation;
// another one throws Error(kUnsupported) with its name.
std::unique_ptr<PreTokenizer> parse_pre_tokenizer(const Json& value, const std::string& where);

}  // namespace roundel
