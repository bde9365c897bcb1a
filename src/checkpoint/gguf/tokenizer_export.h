// The tokenizer files of an imported model, as JSON text: what Hugging Face `tokenizers` needs to cut text into the same
// tokens as the GGUF file's own description.
//
//   write_text_file(folder / "tokenizer.json", export_tokenizer(vocab, path));
#pragma once
#include <string>

#include "checkpoint/gguf/vocab.h"

namespace roundel {

std::string export_tokenizer(const GgufVocab& vocab, const std::string& file);  // tokenizer.json
std::string export_tokenizer_config(const GgufVocab& vocab,
                                    const std::string& file);  // with the chat template
std::string export_special_tokens_map(const GgufVocab& vocab);

}  // namespace roundel
