#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace roundel {
namespace {
[[noreturn]] void fail_io(const std::filesystem::path& path, const char* what) {
  const int e = errno;
  const ErrorCode code = e == ENOSPC || e == EDQUOT || e == EFBIG ? ErrorCode::kNoSpace
                         : e == ENOENT                            ? ErrorCode::kNotFound
                                                                  : ErrorCode::kIo;
  fail(code, "{}: cannot {}: {}", path.string(), what, std::strerror(e));
}
}  // namespace

File::File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
    path_ = std::move(other.path_);
  }
  return *this;
}
File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

File File::open_read(const std::filesystem::path& path) {
  File f;
  f.path_ = path;
  f.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // non-blocking: a FIFO must not hang us
  if (f.fd_ < 0) fail_io(path, "open");
  struct stat st {};
  if (::fstat(f.fd_, &st) != 0) fail_io(path, "stat");
  if (!S_ISREG(st.st_mode)) {
    const char* kind = S_ISDIR(st.st_mode)    ? "a directory"
                       : S_ISFIFO(st.st_mode) ? "a FIFO"
                                              : "a special file";
    fail(ErrorCode::kInvalid, "{}: is {}, expected a regular file", path.string(), kind);
  }
  return f;
}

File File::open_write(const std::filesystem::path& path, bool keep) {
  File f;
  f.path_ = path;
  f.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | (keep ? 0 : O_TRUNC), 0644);
  if (f.fd_ < 0) fail_io(path, "create");
  return f;
}

uint64_t File::size() const {
  struct stat st {};
  if (::fstat(fd_, &st) != 0) fail_io(path_, "stat");
  return static_cast<uint64_t>(st.st_size);
}

void File::read_at(uint64_t offset, void* to, size_t bytes) const {
  char* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = ::pread(fd_, out, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io(path_, "read");
    if (n == 0)
      fail(ErrorCode::kInvalid, "{}: file is short by {} bytes (at offset {})", path_.string(), bytes,
           offset);
    out += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
}

void File::write_at(uint64_t offset, const void* from, size_t bytes) {
  const char* in = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t n = ::pwrite(fd_, in, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io(path_, fmt::format("write {} bytes", bytes).c_str());
    in += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
}

void File::set_size(uint64_t bytes) {
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0)
    fail_io(path_, fmt::format("grow to {} bytes", bytes).c_str());
  if (bytes == 0) return;
  if (::fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) != 0 && errno != EOPNOTSUPP && errno != ENOSYS &&
      errno != EINTR)
    fail_io(path_, fmt::format("reserve {} bytes", bytes).c_str());
}

void File::start_writeback(uint64_t offset, uint64_t bytes) {
  ::sync_file_range(fd_, static_cast<off64_t>(offset), static_cast<off64_t>(bytes), SYNC_FILE_RANGE_WRITE);
}

void File::sync() {
  if (::fsync(fd_) != 0) fail_io(path_, "flush to disk");
}

void File::close() {
  if (fd_ < 0) return;
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) fail_io(path_, "close");
}

std::string read_text_file(const std::filesystem::path& path, uint64_t max_bytes) {
  File f = File::open_read(path);
  const uint64_t size = f.size();
  if (size > max_bytes)
    fail(ErrorCode::kLimit, "{}: {} bytes, at most {} are read for this kind of file", path.string(), size,
         max_bytes);
  std::string text(size, '\0');
  f.read_at(0, text.data(), size);
  return text;
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::path temporary = path;
  temporary += ".new";
  File f = File::open_write(temporary);
  f.write_at(0, text.data(), text.size());
  f.sync();
  f.close();
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail_io(path, "rename into place");
}

void sync_directory(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_io(path, "open");
  const int r = ::fsync(fd);
  const int e = errno;
  ::close(fd);
  errno = e;
  if (r != 0 && errno != EINVAL) fail_io(path, "flush to disk");
}

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  struct stat x {
  }, y{};
  return ::stat(a.c_str(), &x) == 0 && ::stat(b.c_str(), &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

std::filesystem::path user_cache_folder() {
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    const std::filesystem::path path = value ? value : "";
    return path.is_absolute() ? path : std::filesystem::path();  // as the XDG specification wants
  };
  const std::filesystem::path cache = folder("XDG_CACHE_HOME"), home = folder("HOME");
  if (!cache.empty()) return cache / "roundel";
  return home.empty() ? home : home / ".cache" / "roundel";
}

uint64_t free_disk_bytes(const std::filesystem::path& existing_directory) {
  struct statvfs v {};
  if (::statvfs(existing_directory.c_str(), &v) != 0) fail_io(existing_directory, "ask for free space");
  return static_cast<uint64_t>(v.f_bavail) * v.f_frsize;
}

}  // namespace roundel
