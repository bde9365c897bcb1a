// The settings of Metaspace, which is a pre-tokenizer and a decoder: a space is written as another character ("▁").
#pragma once
#include <string>

#include "base/json.h"

namespace roundel {

struct Metaspace {
  enum class Prepend { kAlways, kFirst, kNever };
  std::string replacement;  // one character
  Prepend prepend = Prepend::kAlways;
  bool split = true;

  // Throws Error(kInvalid). Also reads the older field add_prefix_space.
  static Metaspace parse(const Json& value, const std::string& where);
};

}  // namespace roundel
