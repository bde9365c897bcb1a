#include "model/packed_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "roundel/version.h"

namespace roundel {
namespace {

// Goes up with every change to this file's layout or to a packed layout of a kernel that keeps its name.
constexpr char kMagic[] = "roundel packed 1";  // 16 characters
constexpr size_t kMagicBytes = sizeof(kMagic) - 1;
constexpr size_t kHeaderBytes = kMagicBytes + 16;  // magic, bytes of the key, bytes of the file
constexpr size_t kPage = 4096;                     // on which each linear's bytes begin

size_t to_page(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// FNV-1a, 64 bits: it only names the file.
uint64_t fingerprint(const std::string& text) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return h;
}

std::string file_identity(const std::filesystem::path& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return "absent";
  return fmt::format("{} {}.{:09}", st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

std::string make_key(const ModelFiles& files, std::span<Linear* const> linears) {
  const std::filesystem::path& folder = files.checkpoint.folder();
  std::string key =
      fmt::format("version {}\nfolder {}\n", kVersion, std::filesystem::canonical(folder).string());
  key += files.checkpoint.config().dump() + "\n";
  key += fmt::format("rotation {} {}\n", files.rotation.residual, files.rotation.heads);
  for (const Checkpoint::FileInfo& f : files.checkpoint.files())
    key += f.name + " " + file_identity(folder / f.name) + "\n";
  for (const Linear* linear : linears) {
    const LinearSpec& s = linear->spec();
    key += fmt::format("{} {} {} {} {} {}", s.name, s.n, s.k, dtype_name(s.dtype), linear->kernel().name,
                       linear->packed_bytes());
    for (const auto& args : {s.scheme.weights, s.scheme.input, s.scheme.output})
      key += args ? " " + to_json(*args).dump() : " -";
    key += "\n";
  }
  return key;
}

}  // namespace

PackedCache::PackedCache(const std::filesystem::path& folder, const ModelFiles& files,
                         std::vector<Linear*> linears)
    : linears_(std::move(linears)), key_(make_key(files, linears_)) {
  path_ = folder / fmt::format("{:016x}.packed", fingerprint(key_));
}

size_t PackedCache::data_offset() const {
  return to_page(kHeaderBytes + key_.size());
}

size_t PackedCache::file_bytes() const {
  size_t bytes = data_offset();
  for (const Linear* linear : linears_) bytes += to_page(linear->packed_bytes());
  return bytes;
}

std::shared_ptr<const MappedFile> PackedCache::map() const {
  if (!std::filesystem::exists(path_)) return nullptr;
  try {
    auto file = std::make_shared<const MappedFile>(path_);
    const uint64_t sizes[2] = {key_.size(), file_bytes()};
    const uint8_t* data = file->data();
    const bool whole = file->size() == file_bytes() && std::memcmp(data, kMagic, kMagicBytes) == 0 &&
                       std::memcmp(data + kMagicBytes, sizes, sizeof(sizes)) == 0 &&
                       std::memcmp(data + kHeaderBytes, key_.data(), key_.size()) == 0;
    if (!whole) {
      log_warn("{}: not a whole file of packed weights of this model, it is made again", path_.string());
      return nullptr;
    }
    size_t at = data_offset();
    for (Linear* linear : linears_) {
      linear->use_packed(data + at);
      at += to_page(linear->packed_bytes());
    }
    return file;
  } catch (const Error& e) {
    log_warn("packed weights are made again: {}", e.what());
    return nullptr;
  }
}

void PackedCache::write_file(const std::filesystem::path& path) const {
  File file = File::open_write(path);
  file.set_size(file_bytes());
  const uint64_t sizes[2] = {key_.size(), file_bytes()};
  file.write_at(0, kMagic, kMagicBytes);
  file.write_at(kMagicBytes, sizes, sizeof(sizes));
  file.write_at(kHeaderBytes, key_.data(), key_.size());
  size_t at = data_offset();
  for (const Linear* linear : linears_) {
    file.write_at(at, linear->packed(), linear->packed_bytes());
    file.start_writeback(at, linear->packed_bytes());
    at += to_page(linear->packed_bytes());
  }
  file.sync();
  file.close();
}

void PackedCache::write() const {
  static std::atomic<int> writers{0};
  std::filesystem::path temporary = path_;
  temporary += fmt::format(".{}.{}.new", ::getpid(), writers++);
  std::error_code ignored;
  try {
    std::filesystem::create_directories(path_.parent_path());
    write_file(temporary);
    std::filesystem::rename(temporary, path_);
    log_info("packed weights are in {} ({})", path_.string(), format_bytes(file_bytes()));
  } catch (const std::exception& e) {  // Error and filesystem_error
    std::filesystem::remove(temporary, ignored);
    log_warn("packed weights were not written: {}", e.what());
  }
}

}  // namespace roundel
