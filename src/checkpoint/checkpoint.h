// A checkpoint folder for reading: config.json, and one safetensors file or shards with an index. Opening it validates
// every header, the index against the shards (both ways), and file sizes; no tensor data is read.
//
//   Checkpoint checkpoint = Checkpoint::open(folder);
//   const TensorSpec* spec = checkpoint.find("model.embed_tokens.weight");
//   checkpoint.read(*spec, 0, buffer.data(), spec->bytes());
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_rewriter.h"
#include "tensor/tensor.h"

namespace roundel {

class Checkpoint : public TensorSource {
 public:
  struct FileInfo {
    std::string name;  // base name
    uint64_t size = 0;
    std::vector<std::string> tensors;  // in data order
  };

  // Throws Error: no folder, no config.json, no weights, all missing shards at once, the first fault of a header, or all
  // disagreements between index and shards.
  static Checkpoint open(const std::filesystem::path& folder);
  Checkpoint(Checkpoint&&) noexcept;
  ~Checkpoint() override;

  const TensorSpec* find(std::string_view name) const override;
  // Positioned reads from few open files, whatever the number of shards; never a memory map, so a file that shrinks
  // meanwhile is an Error and not a signal. `spec` must name a tensor of this checkpoint.
  void read(const TensorSpec& spec, uint64_t offset, void* to, size_t bytes) const override;

  // From now on `rewriter` computes the tensors that it names, `added` (in no file, each rewritten) are there too, and
  // config() is `config`. Before anything else has been asked: TensorSpecs found earlier are gone.
  void rewrite(std::unique_ptr<TensorRewriter> rewriter, std::vector<TensorSpec> added, Json config);

  const std::filesystem::path& folder() const;
  const Json& config() const;  // config.json, an object
  const std::vector<FileInfo>& files() const;
  std::vector<std::string> tensor_names() const;     // in file and data order
  const std::vector<std::string>& warnings() const;  // total_size that is wrong, files that are not read
  uint64_t total_tensor_bytes() const;

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace roundel
