// Files of tests/data/tokenizers, made by the tests/tools/make_tokenizer*.py scripts from the `tokenizers` package.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace roundel::test {

inline Json tokenizer_data(const std::string& file) {
  return read_json_file(std::filesystem::path(ROUNDEL_TEST_DATA) / "tokenizers" / file);
}

inline const std::vector<std::string>& fixture_names() {
  static const std::vector<std::string> names = {"gpt2",      "roberta_like", "llama3",      "qwen2",
                                                 "smollm2",   "o200k",        "llama2",      "mistral",
                                                 "metaspace", "gemma",        "added_tokens"};
  return names;
}

inline Tokenizer fixture_tokenizer(const std::string& name) {
  return Tokenizer::parse(tokenizer_data(name + ".json").at("tokenizer").dump(), name);
}

// A text of texts.json: a string, or bytes that are not UTF-8.
inline std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const std::string hex = value.at("hex").get<std::string>();
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

// A tokenizer of bytes with a few merges, and the given parts in place of its own.
inline Json small_tokenizer(const Json& changes = Json::object()) {
  Json tree = Json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, "merges": ["a b", "ab c"]}})");
  tree.merge_patch(changes);
  return tree;
}

}  // namespace roundel::test
