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
  // Resume: the files of an earlier writer keep their contents. Set it only when progress was saved after a flush();
  // a file that is absent or has another header is an Error then, since the progress would not be true.
  bool keep_existing = false;
};

class TensorWriter {
 public:
  // Shards are filled in the order of `specs` (see plan_shards). Creates all files at full size, zeroed: a full disk is
  // found here. Throws Error(kNoSpace, kIo, kInvalid).
  TensorWriter(const std::filesystem::path& folder, std::vector<TensorSpec> specs,
               const TensorWriterOptions& options = {});
  ~TensorWriter();
  // Bytes [offset, offset + bytes) of the tensor's row-major data. Thread-safe. The disk starts working at once, so that
  // flush() has little left to do.
  void write(std::string_view name, uint64_t offset, const void* data, size_t bytes);
  void flush();              // everything written so far is on disk when this returns; from one thread
  void finish();             // flush, close, write model.safetensors.index.json when there are several shards
  void write_index() const;  // the index alone, for who wants to read what is there already
  std::vector<std::string> file_names() const;  // of the shards
  static uint64_t total_bytes(const std::vector<TensorSpec>& specs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace roundel
