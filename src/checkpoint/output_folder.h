// The output of a long job: nothing, or a complete folder. Work happens in a hidden folder beside the target
// (".NAME.roundel-partial"), whose contents are renamed into place at the end (docs/reliability.md, section D).
//
//   OutputFolder out = OutputFolder::create(destination, {.source = source_folder, .bytes_needed = n});
//   ... write files into out.work() ...
//   out.commit();                          // flushed and renamed; without it the destructor removes the work folder
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace roundel {

struct OutputFolderOptions {
  std::filesystem::path source;  // may be empty; the target must be neither it nor inside it, nor hold it
  uint64_t bytes_needed = 0;     // compared with the free disk space
  bool force = false;            // replace an existing folder that holds a checkpoint (config.json)
  bool resume = false;           // take up the work folder of an interrupted run when there is one
  // Identifies the job (source, options, version). A work folder of another job is not resumed: Error(kInvalid).
  std::string job_key;
};

class OutputFolder {
 public:
  // All checks before any work: parent exists and is writable, target absent or empty, not the source or inside it,
  // enough free space, no other run at work on it (lock file). Throws Error. The unfinished work of an earlier run is
  // removed unless it is resumed.
  static OutputFolder create(const std::filesystem::path& target, const OutputFolderOptions& options);
  OutputFolder(OutputFolder&&) noexcept;
  ~OutputFolder();
  const std::filesystem::path& work() const;
  bool resumed() const;
  // How far the job is: a text the caller defines ("12 of 300 tensors"). Saved atomically; empty at the start.
  std::string progress() const;
  void save_progress(const std::string& progress);
  void keep_for_resume();  // after an interruption: leave the work folder for --resume
  // Everything in work() is on disk and has become the target when this returns. After an Error the target is as before.
  void commit();

 private:
  struct Impl;
  explicit OutputFolder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace roundel
