// Stands between a checkpoint's files and those who read it: some tensors are computed from what the files hold. Readers
// notice nothing, so a transform of the whole model needs no copy of it.
//
//   checkpoint.rewrite(std::make_unique<Halved>(), {}, checkpoint.config());
#pragma once
#include <string_view>

#include "tensor/tensor.h"

namespace roundel {

class TensorRewriter {
 public:
  virtual ~TensorRewriter() = default;
  virtual bool rewrites(std::string_view tensor) const = 0;
  // As TensorSource::read, for tensors that it rewrites; `stored` reads what the files hold. Thread-safe.
  virtual void read(const TensorSource& stored, const TensorSpec& spec, uint64_t offset, void* to,
                    size_t bytes) const = 0;
};

}  // namespace roundel
