// Reads the header of a GGUF file front to back through a small buffer, and never past its end.
//
//   GgufCursor in(bytes, limit);
//   uint32_t version = in.number<uint32_t>("the version");
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/gguf/byte_source.h"

namespace roundel {

class GgufCursor {
 public:
  // Nothing at or after byte `limit` is read: a header longer than that is refused.
  GgufCursor(const ByteSource& bytes, uint64_t limit) : bytes_(bytes), limit_(limit) {}

  uint64_t position() const { return at_; }
  uint64_t remaining() const { return end() - at_; }

  // Fails unless `n` more bytes are there. `what` completes "<file>: ... <what> needs".
  void need(uint64_t n, const std::string& what) const {
    if (n <= remaining()) return;
    if (bytes_.size() > limit_)
      fail(ErrorCode::kLimit, "{}: {} at byte {} needs {} bytes; a header may have {} in all", bytes_.name(),
           what, at_, n, limit_);
    fail(ErrorCode::kInvalid,
         "{}: {} at byte {} needs {} bytes, the file ends after {}: {} bytes are missing; it is "
         "truncated or damaged, fetch it again",
         bytes_.name(), what, at_, n, remaining(), n - remaining());
  }
  void read(void* to, uint64_t n, const std::string& what) {
    need(n, what);
    auto* out = static_cast<uint8_t*>(to);
    while (n > 0) {
      if (at_ < buffer_at_ || at_ >= buffer_at_ + buffer_.size()) fill();
      const uint64_t offset = at_ - buffer_at_;
      const uint64_t take = std::min<uint64_t>(n, buffer_.size() - offset);
      std::memcpy(out, buffer_.data() + offset, take);
      out += take;
      at_ += take;
      n -= take;
    }
  }
  template <class T>
  T number(const std::string& what) {
    T v;
    read(&v, sizeof(T), what);
    return v;
  }
  // Length prefix (64 bits) and text.
  std::string string(uint64_t max, const std::string& what) {
    const auto length = number<uint64_t>(what);
    need(length, what);
    if (length > max)
      fail(ErrorCode::kLimit, "{}: {} has {} bytes, at most {} are read", bytes_.name(), what, length, max);
    std::string text(length, '\0');
    read(text.data(), length, what);
    return text;
  }

 private:
  uint64_t end() const { return std::min(bytes_.size(), limit_); }
  void fill() {
    buffer_at_ = at_;
    buffer_.resize(std::min<uint64_t>(kBuffer, end() - at_));
    bytes_.read(buffer_at_, buffer_.data(), buffer_.size());
  }

  static constexpr uint64_t kBuffer = 64u << 10;
  const ByteSource& bytes_;
  uint64_t limit_;
  uint64_t at_ = 0;
  uint64_t buffer_at_ = 0;
  std::vector<uint8_t> buffer_;
};

}  // namespace roundel
