// Files: whole reads with a size cap, positioned reads that never block on a FIFO or die of a truncated file,
// atomic writes.
//
//   File f = File::open_read(path);          // regular files only
//   f.read_at(offset, buffer, bytes);        // all of them, or an Error that says how many bytes are missing
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace roundel {

class File {
 public:
  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();
  static File open_read(const std::filesystem::path& path);
  // Creates the file (or opens it, with keep) for positioned writes.
  static File open_write(const std::filesystem::path& path, bool keep = false);

  uint64_t size() const;  // as it is now
  void read_at(uint64_t offset, void* to, size_t bytes) const;
  void write_at(uint64_t offset, const void* from, size_t bytes);
  void set_size(uint64_t bytes);  // reserves disk space where the file system can: a full disk is found here
  void start_writeback(uint64_t offset,
                       uint64_t bytes);  // hint: begin writing to disk now, so that sync() is short
  void sync();                           // data and size are on disk
  void close();                          // reports errors, unlike the destructor
  int fd() const { return fd_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  int fd_ = -1;
  std::filesystem::path path_;
};

std::string read_text_file(const std::filesystem::path& path, uint64_t max_bytes);
// Writes beside the target and renames: the target holds the old or the new text, never a part.
void write_text_file(const std::filesystem::path& path, std::string_view text);
void sync_directory(const std::filesystem::path& path);
// True when both name the same file or directory (device and inode), whatever the spelling.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);
// Where this user's programs keep what they can make again: $XDG_CACHE_HOME/roundel, else $HOME/.cache/roundel; empty when
// neither is an absolute path. It need not be there.
std::filesystem::path user_cache_folder();
uint64_t free_disk_bytes(const std::filesystem::path& existing_directory);

}  // namespace roundel
