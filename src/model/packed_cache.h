// Packed weights in a file, so that a second load of the same model maps them instead of reading and packing again.
//
//   PackedCache cache("/var/cache/roundel", files, linears);
//   std::shared_ptr<const MappedFile> mapped = cache.map();     // null: no such file yet, or not a whole one
//   cache.write();                                              // from packed linears
//
// The file's name is a fingerprint of its key, and the file begins with the key itself: version of the program and of this
// format, config.json, rotation, the name, size and time of every file of the checkpoint, and for every linear its scheme,
// kernel and packed size. Whatever changes one of them finds no file. Files are written under another name and renamed, so
// that readers see whole ones and of several writers the last one wins; nobody writes to a file that is in place.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "linear/linear.h"
#include "model/model_files.h"

namespace roundel {

class PackedCache {
 public:
  // The linears live as long as this.
  PackedCache(const std::filesystem::path& folder, const ModelFiles& files, std::vector<Linear*> linears);
  // Gives every linear its packed bytes in the file, which must outlive them.
  std::shared_ptr<const MappedFile> map() const;
  // The folder is made when it is absent. A failure is a warning: the model is loaded all the same.
  void write() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  void write_file(const std::filesystem::path& path) const;
  size_t data_offset() const;
  size_t file_bytes() const;

  std::vector<Linear*> linears_;
  std::string key_;
  std::filesystem::path path_;
};

}  // namespace roundel
