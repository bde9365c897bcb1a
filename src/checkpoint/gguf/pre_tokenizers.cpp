#include "checkpoint/gguf/pre_tokenizers.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/gguf/metadata.h"
#include "checkpoint/quoted.h"

namespace roundel {
namespace {

using Text = std::string_view;

// Patterns: the tokenizer.json files of the models that gave the names; "default" is llama.cpp's own.
constexpr Text kContractions = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr Text kLlama3[] = {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                            R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Text kQwen2[] = {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                           R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Text kTekken[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?)"
    R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Text kGpt4o[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Text kDeepseekCoder[] = {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-퟿]+"};
constexpr Text kDefault[] = {R"([\p{P}\$\+<=>\^~\|]+)", kContractions, R"(\p{N}+)", "[0-9][0-9][0-9]"};

constexpr Text kSmollmNames[] = {"smollm"};
constexpr Text kStarcoderNames[] = {"starcoder", "refact", "codeshell", "minerva-7b"};
constexpr Text kGpt2Names[] = {"gpt-2", "phi-2", "mellum", "a.x-4.0"};
constexpr Text kLlama3Names[] = {"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"};
constexpr Text kDbrxNames[] = {"dbrx", "smaug-bpe"};
constexpr Text kQwen2Names[] = {"qwen2", "deepseek-r1-qwen", "megrez"};
constexpr Text kTekkenNames[] = {"tekken"};
constexpr Text kGpt4oNames[] = {"gpt-4o"};
constexpr Text kDeepseekCoderNames[] = {"deepseek-coder"};
constexpr Text kDefaultNames[] = {"default", ""};

constexpr Text kGeneric = kGenericTokenizerClass;

// names, patterns, digits, gpt2_regex, nfc, ignore_merges, add_bos, hf_class
constexpr PreTokenizerRow kRows[] = {
    {kSmollmNames, {}, true, true, false, false, false, "GPT2Tokenizer"},
    {kStarcoderNames, {}, true, true, false, false, false, kGeneric},
    {kGpt2Names, {}, false, true, false, false, false, "GPT2Tokenizer"},
    {kLlama3Names, kLlama3, false, false, false, true, true, kGeneric},
    {kDbrxNames, kLlama3, false, false, false, false, false, kGeneric},
    {kQwen2Names, kQwen2, false, false, true, false, false, "Qwen2Tokenizer"},
    {kTekkenNames, kTekken, false, false, false, true, true, kGeneric},
    {kGpt4oNames, kGpt4o, false, false, false, false, false, kGeneric},
    {kDeepseekCoderNames, kDeepseekCoder, true, false, false, false, false, kGeneric},
    {kDefaultNames, kDefault, false, false, false, false, false, kGeneric},
};

}  // namespace

const PreTokenizerRow& find_pre_tokenizer(std::string_view name, const std::string& file) {
  std::string known;
  for (const PreTokenizerRow& row : kRows) {
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) return row;
    for (const Text n : row.names)
      if (!n.empty()) known += (known.empty() ? "" : ", ") + std::string(n);
  }
  fail(ErrorCode::kUnsupported,
       "{}: the pre-tokenizer {} (tokenizer.ggml.pre) is not imported; these are: {}", file, shortened(name),
       known);
}

}  // namespace roundel
