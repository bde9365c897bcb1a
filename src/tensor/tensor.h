// Shapes, owned buffers, and the two views through which tensors pass between modules: TensorSpec (what a tensor is)
// and TensorSource (where its bytes come from: a checkpoint folder, a GGUF file, a test).
//
//   const TensorSpec* spec = source.find("model.norm.weight");
//   std::vector<uint16_t> norm(spec->elements());
//   source.read(*spec, 0, norm.data(), spec->bytes());
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/dtype.h"

namespace roundel {

using Shape = std::vector<int64_t>;

std::string shape_text(const Shape& shape);  // "[64, 128]"

struct TensorSpec {
  std::string name;
  DType dtype = DType::kBF16;
  Shape shape;

  uint64_t elements() const {
    uint64_t n = 1;
    for (int64_t d : shape) n = checked_mul(n, static_cast<uint64_t>(d), name.c_str());
    return n;
  }
  uint64_t bytes() const { return checked_mul(elements(), dtype_size(dtype), name.c_str()); }
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // Null when there is no such tensor. The pointer lives as long as the source.
  virtual const TensorSpec* find(std::string_view name) const = 0;
  // Reads bytes [offset, offset + bytes) of the tensor's row-major data. Thread-safe. Throws Error(kInvalid, kIo).
  virtual void read(const TensorSpec& spec, uint64_t offset, void* to, size_t bytes) const = 0;
};

// Memory aligned for SIMD (64 bytes) and, when large, for huge pages. Contents start undefined unless zeroed.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes, bool zeroed = false);
  uint8_t* data() { return data_.get(); }
  const uint8_t* data() const { return data_.get(); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct Free {
    void operator()(uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t, Free> data_;
  size_t size_ = 0;
};

// n elements of `from` at `source`, widened to float.
void widen_to_float(DType from, const void* source, float* to, size_t n);
// Rounds float to BF16, F16 or F32 bytes, to nearest even.
void narrow_from_float(DType to, const float* source, void* bytes, size_t n);
// x rounded to the values of `type` (BF16, F16, F32): arithmetic "in that dtype".
float round_to(DType type, float x);

}  // namespace roundel
