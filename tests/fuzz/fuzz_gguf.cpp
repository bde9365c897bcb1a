// A GGUF file in memory: everything that an import does with it before it reads the weights. Half of the mutations change
// one number of the header (a count, a length, a type, a dimension, an offset, a value), so that the rest stays readable.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/gguf/config_export.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/reader.h"
#include "checkpoint/gguf/tensor_names.h"
#include "checkpoint/gguf/tokenizer_export.h"
#include "checkpoint/gguf/vocab.h"

namespace {

struct Field {
  size_t at, bytes;
};

// The numbers of a header, as far as it can be followed.
class Fields {
 public:
  Fields(const uint8_t* data, size_t size) : data_(data), size_(size) {
    number(4);
    number(4);
    const uint64_t tensors = number(8), keys = number(8);
    for (uint64_t i = 0; i < keys && good_; ++i) {
      text();
      value(static_cast<uint32_t>(number(4)));
    }
    for (uint64_t i = 0; i < tensors && good_; ++i) {
      text();
      const uint64_t dimensions = number(4);
      for (uint64_t d = 0; d < dimensions && good_; ++d) number(8);
      number(4);
      number(8);
    }
  }
  const std::vector<Field>& list() const { return list_; }

 private:
  uint64_t number(size_t bytes) {
    if (bytes == 0 || bytes > size_ - at_) good_ = false;
    if (!good_) return 0;
    uint64_t v = 0;
    std::memcpy(&v, data_ + at_, bytes);
    list_.push_back({at_, bytes});
    at_ += bytes;
    return v;
  }
  void text() {
    const uint64_t length = number(8);
    if (length > size_ - at_) good_ = false;
    if (good_) at_ += length;
  }
  void value(uint32_t type) {
    constexpr size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type > 12) good_ = false;
    if (!good_) return;
    if (type == 8) return text();
    if (type != 9) {
      number(kBytes[type]);
      return;
    }
    const auto element = static_cast<uint32_t>(number(4));
    const uint64_t count = number(8);
    for (uint64_t i = 0; i < count && good_; ++i) {
      if (element == 9) good_ = false;  // nested arrays are not followed
      if (good_) value(element);
    }
  }

  const uint8_t* data_;
  size_t size_, at_ = 0;
  bool good_ = true;
  std::vector<Field> list_;
};

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  std::minstd_rand random(seed);
  const Fields fields(data, size);
  if (random() % 2 == 0 || fields.list().empty()) return LLVMFuzzerMutate(data, size, max_size);
  const Field field = fields.list()[random() % fields.list().size()];
  uint64_t old = 0;
  std::memcpy(&old, data + field.at, field.bytes);
  const uint64_t choices[] = {0,
                              1,
                              2,
                              UINT64_MAX,
                              old + 1,
                              old - 1,
                              old * 2,
                              ~old,
                              size,
                              size - field.at,
                              1ull << 31,
                              1ull << 32,
                              1ull << 61,
                              1ull << 63,
                              random() % 16,
                              random() % 4096,
                              random()};
  const uint64_t chosen = choices[random() % (sizeof(choices) / sizeof(choices[0]))];
  std::memcpy(data + field.at, &chosen, field.bytes);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace roundel;
  try {
    const MemoryBytes bytes(std::span(data, size), "input.gguf");
    const GgufFile file = read_gguf(bytes);
    for (const GgufTensor& t : file.tensors)  // what convert_to_bf16() relies on
      if (t.begin + t.bytes > size || t.elements % t.type->block != 0) __builtin_trap();
    const GgufModel model = read_gguf_model(file, bytes);
    for (const ImportedTensor& t : plan_gguf_tensors(file, model))
      if (t.source->elements != t.spec.elements()) __builtin_trap();
    const GgufVocab vocab = read_gguf_vocab(file, model);
    dump_json(export_config(model, vocab));
    dump_json(export_generation_config(vocab));
    parse_json(export_tokenizer(vocab, "input.gguf"), "tokenizer.json");
    parse_json(export_tokenizer_config(vocab, "input.gguf"), "tokenizer_config.json");
    export_special_tokens_map(vocab);
  } catch (const Error&) {
  }
  return 0;
}
