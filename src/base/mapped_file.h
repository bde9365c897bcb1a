// A regular file in memory, read-only: its pages are read when they are first touched, and shared with other processes.
// Only for files that are replaced by a rename and never shortened in place, which would be a fatal signal.
//
//   MappedFile f(path);
//   f.data()[f.size() - 1];
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace roundel {

class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);  // Error(kNotFound, kIo, kInvalid: empty)
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace roundel
