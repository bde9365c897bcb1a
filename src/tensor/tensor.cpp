#include "tensor/tensor.h"

#include <sys/mman.h>

#include "base/numeric.h"

namespace roundel {

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Buffer::Buffer(size_t bytes, bool zeroed) : size_(bytes) {
  constexpr size_t kHuge = 2u << 20;
  const size_t alignment = bytes >= kHuge ? kHuge : 64;
  const size_t padded = (bytes + alignment - 1) / alignment * alignment;
  data_.reset(static_cast<uint8_t*>(std::aligned_alloc(alignment, padded ? padded : alignment)));
  if (!data_) fail(ErrorCode::kLimit, "not enough memory for {} bytes", bytes);
  if (bytes >= kHuge) madvise(data_.get(), padded, MADV_HUGEPAGE);
  if (zeroed) std::memset(data_.get(), 0, bytes);
}

void widen_to_float(DType from, const void* source, float* to, size_t n) {
  switch (from) {
    case DType::kBF16: {
      const auto* s = static_cast<const uint16_t*>(source);
      for (size_t i = 0; i < n; ++i) to[i] = bf16_to_float(s[i]);
      return;
    }
    case DType::kF16: {
      const auto* s = static_cast<const uint16_t*>(source);
      for (size_t i = 0; i < n; ++i) to[i] = f16_to_float(s[i]);
      return;
    }
    case DType::kF32:
      std::memcpy(to, source, n * 4);
      return;
    case DType::kF8E4M3: {
      const auto* s = static_cast<const uint8_t*>(source);
      for (size_t i = 0; i < n; ++i) to[i] = e4m3_to_float(s[i]);
      return;
    }
    default:
      fail(ErrorCode::kUnsupported, "{} is not a floating-point type that roundel reads", dtype_name(from));
  }
}

void narrow_from_float(DType to, const float* source, void* bytes, size_t n) {
  switch (to) {
    case DType::kBF16:
      for (size_t i = 0; i < n; ++i) static_cast<uint16_t*>(bytes)[i] = float_to_bf16(source[i]);
      return;
    case DType::kF16:
      for (size_t i = 0; i < n; ++i) static_cast<uint16_t*>(bytes)[i] = float_to_f16(source[i]);
      return;
    case DType::kF32:
      std::memcpy(bytes, source, n * 4);
      return;
    default:
      fail(ErrorCode::kUnsupported, "cannot store floats as {}", dtype_name(to));
  }
}

float round_to(DType type, float x) {
  return type == DType::kBF16 ? round_bf16(x) : type == DType::kF16 ? round_f16(x) : x;
}

}  // namespace roundel
