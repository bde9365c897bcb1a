#include "checkpoint/output_target.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/quoted.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileName = 255;

// Is `folder` the same as, or an ancestor of, `path` (which exists)? By device and inode.
bool holds(const fs::path& folder, const fs::path& path) {
  std::error_code error;
  for (fs::path p = fs::canonical(path, error); !error; p = p.parent_path()) {
    if (same_file(folder, p)) return true;
    if (p == p.root_path()) return false;
  }
  return false;
}

void check_apart(const OutputTarget& t, const fs::path& source) {
  const std::string name = t.target.string();
  if (same_file(t.target, source))
    fail(ErrorCode::kInvalid, "{}: the output is the same folder as the input {}; choose another output",
         name, source.string());
  if (holds(source, t.parent))
    fail(ErrorCode::kInvalid, "{}: the output is inside the input folder {}; choose another output", name,
         source.string());
  if (holds(t.target, source))
    fail(ErrorCode::kInvalid, "{}: the input {} is inside the output folder; choose another output", name,
         source.string());
  std::error_code error;
  for (fs::directory_iterator it(source, error), end; !error && it != end; it.increment(error))
    if (it->is_symlink(error) && holds(t.target, it->path()))
      fail(ErrorCode::kInvalid,
           "{}: the input file {} is a link into the output folder; choose another output", name,
           it->path().string());
}

// A mount point cannot be replaced by a rename, which would be found only at the end of the job.
bool is_mount_point(const fs::path& path) {
  struct statx st {};
  if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &st) != 0) return false;
  return (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

}  // namespace

OutputTarget OutputTarget::at(const fs::path& path) {
  std::error_code error;
  OutputTarget t;
  t.target = fs::absolute(path, error);  // as the kernel resolves it: "link/../x" is not normalized
  if (!t.target.has_filename()) t.target = t.target.parent_path();  // "name/"
  const std::string name = t.target.filename().string();
  if (path.empty() || error || name.empty() || name == "." || name == "..")
    fail(ErrorCode::kInvalid, "output {}: expected a path that ends in the name of the folder",
         in_quotes(path.string()));
  if (name.size() > kMaxFileName)
    fail(ErrorCode::kInvalid, "{}: the name has {} bytes, a file name has at most {}",
         shortened(path.string()), name.size(), kMaxFileName);
  t.parent = t.target.parent_path();
  const fs::file_type type = fs::status(t.parent, error).type();
  if (type == fs::file_type::not_found)
    fail(ErrorCode::kNotFound, "{}: the folder {} does not exist; create it first", t.target.string(),
         t.parent.string());
  if (type != fs::file_type::directory)
    fail(ErrorCode::kInvalid, "{}: {} is not a directory", t.target.string(), t.parent.string());
  std::string hidden = "." + name + ".roundel-partial";
  if (hidden.size() > kMaxFileName)
    hidden = fmt::format(".{:016x}.roundel-partial", std::hash<std::string>()(name));
  t.partial = t.parent / hidden;
  return t;
}

bool OutputTarget::check_free(const fs::path& source, bool force) const {
  const std::string name = target.string();
  if (!source.empty()) check_apart(*this, source);
  std::error_code error;
  const fs::file_type type = fs::symlink_status(target, error).type();
  if (type == fs::file_type::not_found) return false;
  if (type == fs::file_type::symlink)
    fail(ErrorCode::kInvalid, "{}: exists and is a symbolic link; name the output folder itself", name);
  if (type != fs::file_type::directory)
    fail(ErrorCode::kInvalid, "{}: exists and is not a folder ({})", name,
         error ? error.message() : "a file");
  if (is_mount_point(target))
    fail(ErrorCode::kInvalid, "{}: exists and is a mount point; name a new folder inside it", name);
  const bool empty = fs::is_empty(target, error);
  if (error) fail(ErrorCode::kIo, "{}: cannot look into the folder: {}", name, error.message());
  if (empty) return false;
  if (!force)
    fail(ErrorCode::kInvalid,
         "{}: exists and is not empty; choose another output, or --force to replace a checkpoint", name);
  if (!fs::is_regular_file(target / "config.json", error))
    fail(ErrorCode::kInvalid,
         "{}: exists and is not a checkpoint (it holds no config.json), so --force does not replace it",
         name);
  return true;
}

}  // namespace roundel
