// Normalizers of tokenizer.json: what happens to a text before it is split.
//
//   std::unique_ptr<Normalizer> normalizer = parse_normalizer(json.at("normalizer"), "tokenizer.json: normalizer");
//   NormalizedText text{"Hello world"};
//   normalizer->apply(&text);
#pragma once
#include <memory>
#include <string>

#include "base/json.h"

namespace roundel {

struct NormalizedText {
  std::string text;
  // True while the first character stems from the first character of the whole input: Metaspace's "first" asks.
  bool at_start = false;
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedText* text) const = 0;  // valid UTF-8 in and out
};

// nullptr for null. Types: Sequence, Prepend, Replace, NFC, NFD, NFKC, NFKD, Lowercase, Strip, ByteLevel; another one
// throws Error(kUnsupported) with its name.
std::unique_ptr<Normalizer> parse_normalizer(const Json& value, const std::string& where);

}  // namespace roundel
