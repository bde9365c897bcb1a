// Writes tensors whose layout is known beforehand into one safetensors file or several shards, at any position and from
// several threads.
//
//   TensorWriter writer(folder, specs, {.max_shard_bytes = 5ull << 30});
//   writer.write("model.norm.weight", 0, data, bytes);
//   writer.finish();                                   // flushed; index written when there is more than one shard
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace roundel {

struct TensorWriterOptions {
  uint64_t max_shard_bytes = 5ull << 30;
  bool keep_existing = false;  // resume: files that are there already, with the same header, keep their contents
};

class TensorWriter {
 public:
  // `specs` in file order. Creates all files at full size (a full disk is found here).
  TensorWriter(const std::filesystem::path& folder, std::vector<TensorSpec> specs, const TensorWriterOptions& options = {});
  ~TensorWriter();
  void write(std::string_view name, uint64_t offset, const void* data, size_t bytes);
  void flush();   // everything written so far is on disk when this returns
  void finish();  // flush, close, write model.safetensors.index.json when there are several shards
  static uint64_t total_bytes(const std::vector<TensorSpec>& specs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace roundel
