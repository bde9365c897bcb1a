// The output of a long job: nothing, or a complete folder. Work happens in a hidden folder beside the target, which is
// renamed at the end (reliability section D).
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
  std::filesystem::path source;  // may be empty; the target must be neither it nor inside it
  uint64_t bytes_needed = 0;     // compared with the free disk space
  bool force = false;            // replace an existing folder that holds a checkpoint
  bool resume = false;           // take up the work folder of an interrupted run when there is one
  // Identifies the job (source, options, version). A work folder of another job is not resumed: Error(kInvalid).
  std::string job_key;
};

class OutputFolder {
 public:
  // All checks before any work: parent exists and is writable, target absent or empty, not the source or inside it,
  // enough free space, no other run at work on it (lock file). Throws Error.
  static OutputFolder create(const std::filesystem::path& target, const OutputFolderOptions& options);
  OutputFolder(OutputFolder&&) noexcept;
  ~OutputFolder();
  const std::filesystem::path& work() const;
  bool resumed() const;
  // How far the job is: a text the caller defines ("12 of 300 tensors"). Saved atomically; empty at the start.
  std::string progress() const;
  void save_progress(const std::string& progress);
  void keep_for_resume();  // after an interruption: leave the work folder for --resume
  void commit();

 private:
  struct Impl;
  explicit OutputFolder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace roundel
