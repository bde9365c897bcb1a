// Storage formats: how the codes, scales and zero points of a module lie in a checkpoint. One file in formats/ and one row
// in format_list.cpp for each.
//
//   const StorageFormat& format = find_format("pack-quantized", where);
//   std::vector<TensorSpec> specs = format.layout(stored);                       // what to reserve in the file
//   format.store(stored, rows, [&](const std::string& tensor, uint64_t offset, const void* data, size_t n) {...});
//   format.load(stored, source, row0, n, &rows);
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "codec/quantized_rows.h"
#include "scheme/quant_args.h"
#include "tensor/tensor.h"

namespace roundel {

// One weight as it is or will be stored.
struct StoredWeight {
  std::string module;
  Scheme scheme;
  int64_t rows = 0, cols = 0;
  DType scale_dtype = DType::kBF16;
  bool old_packing = false;  // 32/bits values in a word (before compressed-tensors 0.18); set by open()
};

using TensorSink =
    std::function<void(const std::string& tensor, uint64_t offset, const void* data, size_t bytes)>;

struct StorageFormat {
  std::string_view name;
  // All tensors of the module that hold its quantized weight (not bias, not activation scales), in file order.
  std::vector<TensorSpec> (*layout)(const StoredWeight&);
  // Writes a chunk. row0 is a multiple of kChunkUnit. Padding bits are zero.
  void (*store)(const StoredWeight&, const QuantizedRows&, const TensorSink&);
  // Checks every tensor of a stored module against the scheme and the shape (docs/format.md, 4, 13) and adds to
  // `problems`; accepts legacy spellings (0-d and [out] scales, zero points that need not be there, older packing).
  // Sets rows and cols (where they are given, not 0, the file must agree), scale_dtype and old_packing. A module with
  // problems must not be loaded.
  void (*open)(StoredWeight*, const TensorSource&, const std::string& writer_version, Problems*);
  // Reads a chunk. row0 is a multiple of kChunkUnit. Throws Error(kInvalid) for scales that are not finite and values
  // outside the range of the scheme; NaN codes of E4M3 are a warning.
  void (*load)(const StoredWeight&, const TensorSource&, int64_t row0, int64_t rows, QuantizedRows*);
  // Names of tensors that belong to the module and are accounted for, besides those of layout(): weight_g_idx, ...
  std::vector<std::string> (*optional_tensors)(const StoredWeight&);
};

const std::vector<const StorageFormat*>& storage_formats();
// Throws Error(kUnsupported) listing the known ones.
const StorageFormat& find_format(std::string_view name, const std::string& where);

// weight_g_idx of a stored module (docs/format.md, 6.5), the group of each column: empty when the columns are in plain
// order, that is when it is absent, holds a -1 or says so. Throws when a group has not exactly group_size members.
std::vector<int32_t> load_group_index(const StoredWeight& stored, const TensorSource& source);

}  // namespace roundel
