// Builds GGUF files in memory, good ones and bad ones.
//
//   GgufBuilder b; b.text("general.architecture", "llama"); b.tensor("x", {64, 2}, 8, data);
//   std::vector<uint8_t> file = b.build();
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/gguf/reader.h"
#include "support.h"

namespace roundel {

class GgufBuilder {
 public:
  // Appends raw bytes of any fixed-size number or a length-prefixed string.
  template <class T>
  static void put(std::string& to, T v) {
    to.append(reinterpret_cast<const char*>(&v), sizeof(T));
  }
  static void put_text(std::string& to, const std::string& text) {
    put<uint64_t>(to, text.size());
    to += text;
  }

  // A key with the value's bytes as they are.
  void raw(const std::string& key, uint32_t type, const std::string& value) {
    put_text(keys_, key);
    put<uint32_t>(keys_, type);
    keys_ += value;
    ++key_count;
  }
  template <class T>
  void number(const std::string& key, uint32_t type, T v) {
    std::string value;
    put(value, v);
    raw(key, type, value);
  }
  void u32(const std::string& key, uint32_t v) { number(key, 4, v); }
  void f32(const std::string& key, float v) { number(key, 6, v); }
  void flag(const std::string& key, uint8_t v) { number(key, 7, v); }
  void text(const std::string& key, const std::string& v) {
    std::string value;
    put_text(value, v);
    raw(key, 8, value);
  }
  void texts(const std::string& key, const std::vector<std::string>& list) {
    std::string value;
    put<uint32_t>(value, 8);
    put<uint64_t>(value, list.size());
    for (const std::string& t : list) put_text(value, t);
    raw(key, 9, value);
  }
  template <class T>
  void numbers(const std::string& key, uint32_t type, const std::vector<T>& list) {
    std::string value;
    put<uint32_t>(value, type);
    put<uint64_t>(value, list.size());
    for (const T v : list) put(value, v);
    raw(key, 9, value);
  }

  // `ne`: fastest dimension first, as in the file. Without `offset` the tensor follows the one before.
  void tensor(const std::string& name, const std::vector<uint64_t>& ne, uint32_t type,
              const std::string& data, std::optional<uint64_t> offset = std::nullopt) {
    put_text(tensors_, name);
    put<uint32_t>(tensors_, static_cast<uint32_t>(ne.size()));
    for (const uint64_t n : ne) put(tensors_, n);
    put(tensors_, type);
    put<uint64_t>(tensors_, offset.value_or(data_.size()));
    data_ += data;
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    ++tensor_count;
  }
  void f32_tensor(const std::string& name, const std::vector<uint64_t>& ne,
                  const std::vector<float>& values) {
    tensor(name, ne, 0, std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4));
  }

  std::vector<uint8_t> build() const {
    std::string file = magic;
    put(file, version);
    put(file, tensor_count);
    put(file, key_count);
    file += keys_ + tensors_;
    file.resize((file.size() + alignment - 1) / alignment * alignment);
    file += data_;
    return {file.begin(), file.end()};
  }

  // What the header says; change them after adding to make bad files.
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t tensor_count = 0, key_count = 0;
  uint64_t alignment = 32;

 private:
  std::string keys_, tensors_, data_;
};

// A whole llama model of one layer: hidden 8, 2 heads, 5 tokens. Pieces can be left out or replaced.
inline GgufBuilder tiny_model(const std::vector<std::string>& without = {}) {
  const auto has = [&](const std::string& name) {
    return std::find(without.begin(), without.end(), name) == without.end();
  };
  GgufBuilder b;
  if (has("general.architecture")) b.text("general.architecture", "llama");
  for (const auto& [key, v] :
       std::initializer_list<std::pair<const char*, uint32_t>>{{"llama.context_length", 64},
                                                               {"llama.embedding_length", 8},
                                                               {"llama.block_count", 1},
                                                               {"llama.feed_forward_length", 4},
                                                               {"llama.attention.head_count", 2}}) {
    if (has(key)) b.u32(key, v);
  }
  if (has("llama.attention.layer_norm_rms_epsilon")) b.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  if (has("tokenizer.ggml.model")) b.text("tokenizer.ggml.model", "gpt2");
  if (has("tokenizer.ggml.pre")) b.text("tokenizer.ggml.pre", "gpt-2");
  if (has("tokenizer.ggml.tokens")) b.texts("tokenizer.ggml.tokens", {"<s>", "a", "b", "ab", "</s>"});
  if (has("tokenizer.ggml.token_type")) b.numbers<int32_t>("tokenizer.ggml.token_type", 5, {3, 1, 1, 1, 3});
  if (has("tokenizer.ggml.merges")) b.texts("tokenizer.ggml.merges", {"a b"});
  if (has("tokenizer.ggml.bos_token_id")) b.u32("tokenizer.ggml.bos_token_id", 0);
  if (has("tokenizer.ggml.eos_token_id")) b.u32("tokenizer.ggml.eos_token_id", 4);
  const auto add = [&](const std::string& name, const std::vector<uint64_t>& ne) {
    size_t n = 1;
    for (const uint64_t d : ne) n *= d;
    if (has(name)) b.f32_tensor(name, ne, std::vector<float>(n, 0.5f));
  };
  add("token_embd.weight", {8, 5});
  add("output_norm.weight", {8});
  for (const char* norm : {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"}) add(norm, {8});
  for (const char* part : {"q", "k", "v", "output"})
    add(std::string("blk.0.attn_") + part + ".weight", {8, 8});
  for (const char* part : {"gate", "up"}) add(std::string("blk.0.ffn_") + part + ".weight", {8, 4});
  add("blk.0.ffn_down.weight", {4, 8});
  return b;
}

// Fails the test unless `work` throws an Error with this code whose text has all the words.
template <class Work>
void expect_refused(Work&& work, ErrorCode code, const std::vector<std::string>& words) {
  expect_error(work, words);
  const auto error = error_of(work);
  if (error) {
    EXPECT_EQ(error->code(), code) << error->what();
  }
}

inline GgufFile read_memory(const std::vector<uint8_t>& file) {
  return read_gguf(MemoryBytes(file, "test.gguf"));
}

inline std::filesystem::path gguf_fixture(const std::string& name) {
  return std::filesystem::path(ROUNDEL_TEST_DATA) / "gguf" / name;
}

}  // namespace roundel
