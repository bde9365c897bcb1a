#include "checkpoint/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = "lock";

std::string holder_of(int fd) {
  char text[24] = {};
  const ssize_t n = ::pread(fd, text, sizeof text - 1, 0);
  std::string digits;
  for (ssize_t i = 0; i < n && text[i] >= '0' && text[i] <= '9'; ++i) digits += text[i];
  return digits.empty() ? "" : fmt::format(" (process {})", digits);
}

// For messages only: a disk too full for it is reported by the writes that matter.
void write_holder(int fd) {
  const std::string text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd, 0) == 0 && ::pwrite(fd, text.data(), text.size(), 0) < 0)
    log_debug("the lock names no process");
}

void make_folder(const fs::path& folder, const std::string& what) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    fail(errno == ENOSPC || errno == EDQUOT ? ErrorCode::kNoSpace : ErrorCode::kIo,
         "{}: cannot create the work folder {}: {}", what, folder.string(), std::strerror(errno));
  struct stat st {};
  if (::lstat(folder.c_str(), &st) == 0 && !S_ISDIR(st.st_mode))
    fail(ErrorCode::kInvalid, "{}: {} is in the way of the work folder; remove it", what, folder.string());
}

bool same_inode(int fd, const fs::path& path) {
  struct stat a {
  }, b{};
  return ::fstat(fd, &a) == 0 && ::lstat(path.c_str(), &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

}  // namespace

FolderLock FolderLock::acquire(const fs::path& folder, const std::string& what) {
  const fs::path path = folder / kLockFile;
  // A run that ends removes folder and lock: one that opened them just before must start over.
  for (int attempt = 0; attempt < 100; ++attempt) {
    make_folder(folder, what);
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 && errno == ENOENT) continue;
    if (fd < 0)
      fail(ErrorCode::kIo, "{}: cannot open the lock {}: {}", what, path.string(), std::strerror(errno));
    FolderLock lock(folder, fd);
    int result = 0;
    do result = ::flock(fd, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EWOULDBLOCK)
      fail(ErrorCode::kInvalid, "{}: another run{} is writing it; wait for that, or choose another output",
           what, holder_of(fd));
    if (result != 0)
      log_warn("{}: this file system has no locks ({}); make sure that no other run writes it", what,
               std::strerror(errno));
    if (!same_inode(fd, path)) continue;
    write_holder(fd);
    return lock;
  }
  fail(ErrorCode::kIo, "{}: cannot lock {}: other runs keep removing it", what, path.string());
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : folder_(std::move(other.folder_)), fd_(std::exchange(other.fd_, -1)) {}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

bool FolderLock::remove_folder() noexcept {
  if (fd_ < 0) return true;  // done already: the folder may be another run's by now
  std::error_code error;
  fs::directory_iterator it(folder_, error);
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->path().filename() != kLockFile) fs::remove_all(it->path(), ignored);
  }
  fs::remove(folder_ / kLockFile, error);
  const bool removed = ::rmdir(folder_.c_str()) == 0;
  ::close(std::exchange(fd_, -1));
  return removed;
}

}  // namespace roundel
