// One safetensors file: its header, validated completely before anything is allocated for it.
//
//   File file = File::open_read(path);
//   SafetensorsHeader header = read_safetensors_header(file);
//   file.read_at(header.data_start + header.tensors[0].begin, to, header.tensors[0].spec.bytes());
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace roundel {

constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsEntry {
  TensorSpec spec;
  uint64_t begin = 0;  // bytes from the start of the data section
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
  uint64_t data_start = 0;  // offset of the data section in the file
};

// Throws Error(kInvalid, kUnsupported) naming file, tensor, value and rule; says what the file looks like when it is
// something else. The rules are those of the format: a JSON object of at most 100,000,000 bytes, names and keys at most
// once, sizes as plain integers, byte ranges that fit dtype and shape and cover the data without hole, overlap or rest.
SafetensorsHeader read_safetensors_header(const File& file);
// The JSON text of a header whose data section has `data_bytes` bytes. `name` is the file for messages. `data_start` of
// the result is that of a file with this header.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& name);
// Length prefix + JSON, padded with spaces to a multiple of 8, for tensors laid one after another in the given order.
// Throws Error when a name occurs twice or the header would be larger than the format allows.
std::string make_safetensors_header(const std::vector<TensorSpec>& tensors,
                                    const std::map<std::string, std::string>& metadata);

}  // namespace roundel
