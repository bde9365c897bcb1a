// A safetensors header: 8 bytes that say how much data follows the header, then its JSON text. What is accepted must
// cover the data exactly, and be the same after it was written and read again.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "json_mutator.h"

namespace {

using namespace roundel;

constexpr size_t kPrefix = 8;
const fuzz::Words kWords = {"dtype",
                            "shape",
                            "data_offsets",
                            "__metadata__",
                            "format",
                            "BOOL",
                            "U8",
                            "I8",
                            "F8_E4M3",
                            "F8_E5M2",
                            "I16",
                            "U16",
                            "F16",
                            "BF16",
                            "I32",
                            "U32",
                            "F32",
                            "I64",
                            "U64",
                            "F64",
                            "F4",
                            "bf16",
                            "a",
                            "b",
                            "model.norm.weight"};

void require(bool holds) {
  if (!holds) __builtin_trap();
}

std::string length_bytes(uint64_t value) {
  std::string out(kPrefix, '\0');
  std::memcpy(out.data(), &value, kPrefix);
  return out;
}

// Gives every entry that has a size the range that follows the one before: most inputs are nearly right then.
uint64_t lay_out(fuzz::Tree& tree) {
  uint64_t at = 0;
  if (!tree.is_object()) return at;
  for (auto& [name, entry] : tree.items()) {
    if (name == "__metadata__" || !entry.is_object() || !entry.contains("dtype") || !entry.contains("shape"))
      continue;
    if (!entry["dtype"].is_string() || !entry["shape"].is_array()) continue;
    const auto type = dtype_from_name(entry["dtype"].get<std::string>());
    uint64_t bytes = type ? dtype_size(*type) : 1;
    for (const fuzz::Tree& d : entry["shape"]) bytes *= d.is_number_unsigned() ? d.get<uint64_t>() : 1;
    entry["data_offsets"] = {at, at + bytes};
    at += bytes;
  }
  return at;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  fuzz::Random random(seed);
  if (size < kPrefix || fuzz::below(random, 16) == 0) return LLVMFuzzerMutate(data, size, max_size);
  fuzz::Tree tree = fuzz::parse_tree(data + kPrefix, size - kPrefix);
  if (tree.is_discarded()) return LLVMFuzzerMutate(data, size, max_size);
  uint64_t length = 0;
  std::memcpy(&length, data, kPrefix);
  fuzz::mutate_tree(random, tree, kWords);
  if (fuzz::below(random, 4) != 0) length = lay_out(tree);
  if (fuzz::below(random, 4) == 0) fuzz::mutate_tree(random, tree, kWords);
  const std::string text = tree.dump(-1, ' ', false, fuzz::Tree::error_handler_t::replace);
  const size_t written = fuzz::write_bytes(length_bytes(length) + text, data, max_size);
  return written ? written : LLVMFuzzerMutate(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kPrefix) return 0;
  uint64_t data_bytes = 0;
  std::memcpy(&data_bytes, data, kPrefix);
  const std::string_view json(reinterpret_cast<const char*>(data) + kPrefix, size - kPrefix);
  try {
    const SafetensorsHeader header = parse_safetensors_header(json, data_bytes, "fuzz.safetensors");
    uint64_t at = 0;
    std::vector<TensorSpec> specs;
    for (const SafetensorsEntry& entry : header.tensors) {
      require(entry.begin == at);
      at += entry.spec.bytes();
      specs.push_back(entry.spec);
    }
    require(at == data_bytes);
    const std::string written = make_safetensors_header(specs, header.metadata);
    const auto again = parse_safetensors_header(std::string_view(written).substr(kPrefix), at, "written");
    require(again.data_start == written.size() && again.metadata == header.metadata);
    require(again.tensors.size() == specs.size());
    for (const SafetensorsEntry& entry : again.tensors) require(entry.begin + entry.spec.bytes() <= at);
  } catch (const Error& e) {
    require(std::string_view(e.what()).size() < 4000);
  }
  return 0;
}
