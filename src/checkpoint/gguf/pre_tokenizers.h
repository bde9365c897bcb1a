// How text is cut into words before byte-level BPE: one row for each tokenizer.ggml.pre that is imported.
//
//   const PreTokenizerRow& row = find_pre_tokenizer("qwen2", "model.gguf");
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace roundel {

struct PreTokenizerRow {
  std::span<const std::string_view> names;     // spellings of tokenizer.ggml.pre
  std::span<const std::string_view> patterns;  // cut by each in turn, matches and gaps kept apart
  bool digits;                                 // each digit is a word of its own (after the patterns)
  bool gpt2_regex;                             // the byte-level step cuts with GPT-2's own expression
  bool nfc;                                    // text is normalized
  bool ignore_merges;                          // a word that is a token is taken whole
  bool add_bos;                                // where the file does not say
  std::string_view hf_class;                   // tokenizer_class
};

constexpr std::string_view kGenericTokenizerClass =
    "PreTrainedTokenizerFast";  // does what tokenizer.json says

// An empty name means "default", as in files from before tokenizer.ggml.pre existed. Throws Error(kUnsupported) naming
// the file and all known names.
const PreTokenizerRow& find_pre_tokenizer(std::string_view name, const std::string& file);

}  // namespace roundel
