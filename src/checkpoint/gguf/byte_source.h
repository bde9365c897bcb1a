// Bytes at positions: a GGUF header is parsed from a file or from memory alike.
//
//   FileBytes bytes(File::open_read(path));
//   bytes.read(0, magic, 4);
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace roundel {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  // All of the bytes, or an Error. Thread-safe.
  virtual void read(uint64_t offset, void* to, size_t bytes) const = 0;
  virtual const std::string& name() const = 0;  // for messages
};

class FileBytes final : public ByteSource {
 public:
  explicit FileBytes(File file) : file_(std::move(file)), size_(file_.size()), name_(file_.path().string()) {}
  uint64_t size() const override { return size_; }
  void read(uint64_t offset, void* to, size_t bytes) const override { file_.read_at(offset, to, bytes); }
  const std::string& name() const override { return name_; }

 private:
  File file_;
  uint64_t size_;
  std::string name_;
};

// The memory must outlive the source.
class MemoryBytes final : public ByteSource {
 public:
  MemoryBytes(std::span<const uint8_t> data, std::string name) : data_(data), name_(std::move(name)) {}
  uint64_t size() const override { return data_.size(); }
  void read(uint64_t offset, void* to, size_t bytes) const override {
    if (offset > data_.size() || bytes > data_.size() - offset)
      fail(ErrorCode::kInvalid, "{}: {} bytes at {} are past the end", name_, bytes, offset);
    if (bytes > 0) std::memcpy(to, data_.data() + offset, bytes);
  }
  const std::string& name() const override { return name_; }

 private:
  std::span<const uint8_t> data_;
  std::string name_;
};

}  // namespace roundel
