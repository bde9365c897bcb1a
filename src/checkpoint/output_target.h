// The place of an output folder: its paths, and whether it may be written.
//
//   OutputTarget target = OutputTarget::at("/models/new");    // Error when the parent is no folder
//   target.check_free(source, force);                         // Error when it would overwrite something
#pragma once
#include <filesystem>
#include <string>

namespace roundel {

struct OutputTarget {
  std::filesystem::path target;   // absolute
  std::filesystem::path parent;   // exists
  std::filesystem::path partial;  // the hidden folder beside it: lock, state and the files so far

  // Throws Error: no name ("/", ".."), a name that is too long, a parent that does not exist or is not a folder.
  static OutputTarget at(const std::filesystem::path& path);
  // Throws Error unless the target is absent, empty, or with `force` a folder that holds config.json; and unless target
  // and `source` (may be empty) lie apart, compared by device and inode. True when there is a folder to replace.
  bool check_free(const std::filesystem::path& source, bool force) const;
};

}  // namespace roundel
