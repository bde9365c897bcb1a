#include "base/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace roundel {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const File file = File::open_read(path);
  size_ = file.size();
  if (size_ == 0) fail(ErrorCode::kInvalid, "{}: the file is empty", path.string());
  void* at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (at == MAP_FAILED) fail(ErrorCode::kIo, "{}: cannot map: {}", path.string(), std::strerror(errno));
  ::madvise(at, size_, MADV_WILLNEED);
  ::madvise(at, size_, MADV_HUGEPAGE);  // where the file system has such pages
  data_ = static_cast<const uint8_t*>(at);
}

MappedFile::~MappedFile() {
  ::munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace roundel
