// The header of a GGUF file (versions 2 and 3): metadata and tensor table, validated completely. Every length and count
// is compared with the bytes that remain before anything is allocated for it, and no tensor data is read.
//
//   FileBytes bytes(File::open_read(path));
//   GgufFile file = read_gguf(bytes);
//   const GgufTensor* t = file.find("token_embd.weight");   // (49152,576), Q8_0, at byte 1785664
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/byte_source.h"
#include "checkpoint/gguf/ggml_type.h"
#include "checkpoint/gguf/metadata.h"
#include "tensor/tensor.h"

namespace roundel {

constexpr uint64_t kMaxGgufHeader = 128ull << 20;  // metadata and tensor table; real ones have 1 to 20 MB

struct GgufTensor {
  std::string name;
  const GgmlType* type = nullptr;  // importable
  Shape shape;                     // row-major, the slowest dimension first: the file's order reversed
  uint64_t elements = 0;
  uint64_t begin = 0, bytes = 0;  // in the file
};

struct GgufFile {
  explicit GgufFile(const std::string& name) : metadata(name) {}
  const GgufTensor* find(std::string_view name) const;

  uint32_t version = 0;
  uint64_t alignment = 32;
  uint64_t data_start = 0;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in file order
  std::map<std::string, size_t, std::less<>> index;
};

// Throws Error(kInvalid, kUnsupported, kLimit) naming file, key or tensor, value and rule. A file that ends too early is
// told how many bytes are missing.
GgufFile read_gguf(const ByteSource& bytes);

}  // namespace roundel
