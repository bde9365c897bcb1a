// One safetensors file: its header, validated completely before anything is allocated for it (reliability section A).
//
//   File file = File::open_read(path);
//   SafetensorsHeader header = read_safetensors_header(file);
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

// Throws Error(kInvalid) naming file, tensor, value and rule; says what the file looks like when it is something else.
SafetensorsHeader read_safetensors_header(const File& file);
// The JSON text of a header whose data section has `data_bytes` bytes. `name` is the file for messages.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes, const std::string& name);
// Length prefix + JSON, padded with spaces to a multiple of 8, for tensors laid one after another in the given order.
std::string make_safetensors_header(const std::vector<TensorSpec>& tensors, const std::map<std::string, std::string>& metadata);

}  // namespace roundel
