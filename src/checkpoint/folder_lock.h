// One run at a time in a work folder: a file "lock" in it, held with flock and naming the process. The lock of a run
// that died is free by itself.
//
//   FolderLock lock = FolderLock::acquire(partial, "/models/new");   // creates the folder; Error when another run has it
//   lock.remove_folder();                                            // while still holding the lock
#pragma once
#include <filesystem>
#include <string>

namespace roundel {

class FolderLock {
 public:
  // `what` is what messages say is being written.
  static FolderLock acquire(const std::filesystem::path& folder, const std::string& what);
  FolderLock(FolderLock&& other) noexcept;
  ~FolderLock();  // leaves the folder
  // Removes everything in the folder, then lock and folder, and lets go. Never throws; false when something is left.
  bool remove_folder() noexcept;

 private:
  FolderLock(std::filesystem::path folder, int fd) : folder_(std::move(folder)), fd_(fd) {}
  std::filesystem::path folder_;
  int fd_ = -1;
};

}  // namespace roundel
