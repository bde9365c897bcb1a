#include "checkpoint/output_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/folder_lock.h"
#include "checkpoint/output_target.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

// Inside the hidden folder.
constexpr const char* kFiles = "files";        // becomes the target
constexpr const char* kState = "state.json";   // job_key and progress
constexpr const char* kReplaced = "replaced";  // the former target, between two renames

void rename_folder(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  fail(errno == ENOSPC || errno == EDQUOT ? ErrorCode::kNoSpace : ErrorCode::kIo,
       "{}: cannot rename it to {}: {}", from.string(), to.string(), std::strerror(errno));
}

// Files first, then the folders that name them.
void sync_tree(const fs::path& folder, int depth = 0) {
  if (depth > 16) fail(ErrorCode::kLimit, "{}: nested too deeply", folder.string());
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      sync_tree(entry.path(), depth + 1);
    } else if (entry.is_regular_file()) {
      File::open_read(entry.path()).sync();
    }
  }
  sync_directory(folder);
}

uint64_t allocated_bytes(const fs::path& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    struct stat st {};
    if (::lstat(it->path().c_str(), &st) == 0) bytes += static_cast<uint64_t>(st.st_blocks) * 512;
  }
  return bytes;
}

void check_space(const OutputTarget& target, uint64_t needed, uint64_t have) {
  const uint64_t left = needed > have ? needed - have : 0;
  const uint64_t free = free_disk_bytes(target.parent);
  if (left <= free) return;
  fail(ErrorCode::kNoSpace, "{}: not enough disk space: {} are needed, {} are free ({} bytes and {} bytes)",
       target.target.string(), format_bytes(left), format_bytes(free), left, free);
}

}  // namespace

struct OutputFolder::Impl {
  Impl(OutputTarget where, FolderLock held) : target(std::move(where)), lock(std::move(held)) {
    files = target.partial / kFiles;
    state = target.partial / kState;
  }
  ~Impl() {
    if (!keep) lock.remove_folder();
  }
  void write_state() { write_text_file(state, dump_json({{"job_key", job_key}, {"progress", progress}})); }
  void restore_replaced();
  void take_up_or_clear(const OutputFolderOptions& options);

  OutputTarget target;
  FolderLock lock;
  fs::path files, state;
  std::string job_key, progress;
  bool replace = false, resumed = false, keep = true, committed = false;
};

// A run died between the two renames of a replacement: the former target comes back.
void OutputFolder::Impl::restore_replaced() {
  std::error_code error;
  const fs::path replaced = target.partial / kReplaced;
  if (!fs::exists(replaced, error) || fs::exists(target.target, error)) return;
  rename_folder(replaced, target.target);
  sync_directory(target.parent);
  log_warn("{}: restored; an earlier run was killed while it replaced the folder", target.target.string());
}

void OutputFolder::Impl::take_up_or_clear(const OutputFolderOptions& options) {
  std::error_code error;
  const bool unfinished = fs::exists(state, error) && fs::exists(files, error);
  if (unfinished && options.resume) {
    try {
      const Json saved = read_json_file(state);
      progress = require_string(saved, "progress", state.string());
      if (require_string(saved, "job_key", state.string()) != options.job_key)
        fail(ErrorCode::kInvalid, "the source, the options or the version of roundel changed since that run");
    } catch (Error& e) {
      e.add_context(target.target.string() +
                    ": the interrupted run cannot be resumed (start afresh without --resume)");
      throw;
    }
    resumed = true;
    return;
  }
  if (unfinished) log_info("{}: removing the unfinished work of an earlier run", target.target.string());
  keep = false;
  for (const fs::path& path : {files, state, target.partial / kReplaced}) {
    fs::remove_all(path, error);
    if (error) fail(ErrorCode::kIo, "{}: cannot remove it: {}", path.string(), error.message());
  }
}

OutputFolder OutputFolder::create(const fs::path& path, const OutputFolderOptions& options) {
  const OutputTarget target = OutputTarget::at(path);
  target.check_free(options.source, options.force);
  std::error_code error;
  const bool fresh = !fs::exists(target.partial, error);
  auto impl = std::make_unique<Impl>(target, FolderLock::acquire(target.partial, target.target.string()));
  impl->keep = !fresh;
  impl->restore_replaced();
  impl->replace =
      target.check_free(options.source, options.force);  // again: another run may just have finished
  impl->take_up_or_clear(options);
  check_space(target, options.bytes_needed, impl->resumed ? allocated_bytes(impl->files) : 0);
  impl->job_key = options.job_key;
  if (!impl->resumed) {
    if (!fs::create_directory(impl->files, error))
      fail(ErrorCode::kIo, "{}: cannot create the folder: {}", impl->files.string(), error.message());
    impl->write_state();
  }
  impl->keep = false;
  return OutputFolder(std::move(impl));
}

OutputFolder::OutputFolder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OutputFolder::OutputFolder(OutputFolder&&) noexcept = default;
OutputFolder::~OutputFolder() = default;

const fs::path& OutputFolder::work() const {
  return impl_->files;
}
bool OutputFolder::resumed() const {
  return impl_->resumed;
}
std::string OutputFolder::progress() const {
  return impl_->progress;
}
void OutputFolder::keep_for_resume() {
  impl_->keep = true;
}

void OutputFolder::save_progress(const std::string& progress) {
  CHECK(!impl_->committed);
  impl_->progress = progress;
  impl_->write_state();
}

void OutputFolder::commit() {
  CHECK(!impl_->committed);
  const fs::path& target = impl_->target.target;
  const fs::path replaced = impl_->target.partial / kReplaced;
  try {
    sync_tree(impl_->files);
  } catch (const fs::filesystem_error& e) {
    fail(ErrorCode::kIo, "{}: cannot flush the folder: {}", impl_->files.string(), e.code().message());
  }
  std::error_code error;
  const bool replace = impl_->replace && fs::exists(target, error);
  bool renamed = false;
  if (replace) rename_folder(target, replaced);
  try {
    rename_folder(impl_->files, target);
    renamed = true;
    sync_directory(impl_->target.parent);
  } catch (...) {
    if (renamed) rename_folder(target, impl_->files);
    if (replace) rename_folder(replaced, target);
    throw;
  }
  impl_->committed = true;
  impl_->keep = false;
  if (!impl_->lock.remove_folder())
    log_warn("{}: could not be removed completely; the output is complete", impl_->target.partial.string());
}

}  // namespace roundel
