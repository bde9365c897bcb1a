#include "checkpoint/output_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

bool is_empty_except(const fs::path& folder, const std::vector<std::string>& names) {
  size_t found = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (std::find(names.begin(), names.end(), entry.path().filename().string()) == names.end()) {
      ADD_FAILURE() << "left behind: " << entry.path();
      return false;
    }
    ++found;
  }
  return found == names.size();
}

void expect_refused(const fs::path& target, const OutputFolderOptions& options,
                    const std::vector<std::string>& words) {
  expect_error([&] { OutputFolder::create(target, options); }, words);
}

// Runs `f`, which must kill itself, in a child process.
template <class F>
void killed(F&& f) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      f();
    } catch (...) {
    }
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(OutputFolder, BecomesTheTargetAtOnce) {
  const TempFolder root;
  {
    OutputFolder out = OutputFolder::create(root / "new", {.bytes_needed = 1000, .job_key = "k"});
    EXPECT_FALSE(fs::exists(root / "new"));
    EXPECT_EQ(fs::path(out.work()).parent_path().parent_path(), root.path());
    write_file(out.work() / "config.json", "{}");
    fs::create_directory(out.work() / "original");
    write_file(out.work() / "original" / "notes", "n");
    out.save_progress("1 of 2");
    out.commit();
    EXPECT_EQ(read_file(root / "new" / "config.json"), "{}");
  }
  EXPECT_TRUE(is_empty_except(root.path(), {"new"}));
  EXPECT_TRUE(is_empty_except(root / "new", {"config.json", "original"}));
}

TEST(OutputFolder, LeavesNothingWithoutCommit) {
  const TempFolder root;
  {
    OutputFolder out = OutputFolder::create(root / "new/", {});
    write_file(out.work() / "config.json", "{}");
  }
  EXPECT_TRUE(is_empty_except(root.path(), {}));
}

TEST(OutputFolder, TakesAnEmptyFolder) {
  const TempFolder root;
  fs::create_directory(root / "new");
  OutputFolder out = OutputFolder::create(root / "new", {});
  write_file(out.work() / "config.json", "{}");
  out.commit();
  EXPECT_TRUE(fs::exists(root / "new/config.json"));
}

TEST(OutputFolder, ChecksThePlaceBeforeAnyWork) {
  const TempFolder root;
  write_file(root / "file", "x");
  expect_refused(root / "nowhere/new", {}, {"nowhere", "does not exist"});
  expect_refused(root / "file/new", {}, {"file", "not a directory"});
  expect_refused(root / "file", {}, {"exists and is not a folder"});
  expect_refused(root / std::string(300, 'n'), {}, {"300 bytes", "255"});
  expect_refused("", {}, {"output"});
  expect_refused("/", {}, {"output"});
  expect_refused(root / "..", {}, {"output"});
  expect_refused("/proc", {}, {"mount point"});
  expect_refused("/proc/new", {}, {"/proc/new", "cannot create"});
  fs::create_directory(root / "full");
  write_file(root / "full" / "notes.txt", "someone's");
  expect_refused(root / "full", {}, {"full", "not empty"});
  expect_refused(root / "full", {.force = true}, {"full", "not a checkpoint"});
  EXPECT_EQ(read_file(root / "full" / "notes.txt"), "someone's");
  EXPECT_TRUE(is_empty_except(root.path(), {"file", "full"}));
}

TEST(OutputFolder, WorksWithTheLongestName) {
  const TempFolder root;
  const std::string name(255, 'n');
  OutputFolder out = OutputFolder::create(root / name, {});
  write_file(out.work() / "config.json", "{}");
  out.commit();
  EXPECT_TRUE(fs::exists(root / name / "config.json"));
}

TEST(OutputFolder, KeepsAwayFromTheSource) {
  const TempFolder root;
  fs::create_directories(root / "model/inner");
  write_file(root / "model/config.json", "{}");
  fs::create_directory_symlink("model", root / "link");
  const OutputFolderOptions options{.source = root / "model", .force = true};
  expect_refused(root / "model", options, {"same folder"});
  expect_refused(root / "link", options, {"same folder"});
  expect_refused(root / "model/new", options, {"inside the input"});
  expect_refused(root / "link/inner/new", options, {"inside the input"});
  expect_refused(root / "model", {.source = root / "model/inner", .force = true}, {"inside the output"});
  expect_refused(root / "link", {.force = true}, {"symbolic link"});
  // The input is only links into the folder that --force would delete.
  fs::create_directory(root / "view");
  fs::create_symlink("../model/config.json", root / "view/config.json");
  expect_refused(root / "model", {.source = root / "view", .force = true}, {"link into the output"});
  EXPECT_EQ(read_file(root / "model/config.json"), "{}");
}

TEST(OutputFolder, ComparesNeededAndFreeSpace) {
  const TempFolder root;
  const auto error =
      error_of([&] { OutputFolder::create(root / "new", {.bytes_needed = uint64_t{1} << 60}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kNoSpace);
  EXPECT_NE(std::string(error->what()).find(std::to_string(uint64_t{1} << 60)), std::string::npos);
  EXPECT_TRUE(is_empty_except(root.path(), {}));
}

TEST(OutputFolder, ReplacesACheckpointWithForce) {
  const TempFolder root;
  fs::create_directory(root / "new");
  write_file(root / "new/config.json", "old");
  write_file(root / "new/stale.json", "old");
  { OutputFolder dropped = OutputFolder::create(root / "new", {.force = true}); }
  EXPECT_EQ(read_file(root / "new/config.json"), "old");
  OutputFolder out = OutputFolder::create(root / "new", {.force = true});
  write_file(out.work() / "config.json", "new");
  out.commit();
  EXPECT_TRUE(is_empty_except(root / "new", {"config.json"}));
  EXPECT_EQ(read_file(root / "new/config.json"), "new");
  EXPECT_TRUE(is_empty_except(root.path(), {"new"}));
}

TEST(OutputFolder, RestoresAFolderWhoseReplacementWasKilled) {
  const TempFolder root;
  fs::create_directories(root / ".new.roundel-partial/replaced");
  write_file(root / ".new.roundel-partial/replaced/config.json", "old");
  expect_refused(root / "new", {}, {"exists and is not empty"});
  EXPECT_EQ(read_file(root / "new/config.json"), "old");
}

TEST(OutputFolder, LetsOneRunIn) {
  const TempFolder root;
  OutputFolder first = OutputFolder::create(root / "new", {});
  expect_refused(root / "new", {}, {"another run", std::to_string(getpid())});
  expect_refused(root / "new", {.resume = true}, {"another run"});
  OutputFolder elsewhere = OutputFolder::create(root / "other", {});
  write_file(first.work() / "config.json", "{}");
  first.commit();
  EXPECT_TRUE(fs::exists(root / "new/config.json"));
}

// 20 pairs of processes that start together: exactly one of each pair gets the folder.
TEST(OutputFolder, LetsOneOfTwoProcessesIn) {
  const TempFolder root;
  for (int pair = 0; pair < 20; ++pair) {
    const fs::path target = root / std::to_string(pair);
    pid_t children[2];
    for (pid_t& child : children) {
      child = fork();
      if (child == 0) {
        try {
          OutputFolder out = OutputFolder::create(target, {});
          write_file(out.work() / "config.json", "{}");
          usleep(100000);
          out.commit();
          _exit(0);
        } catch (const Error&) {
          _exit(7);
        }
      }
    }
    int codes = 0;
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      codes += WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
    }
    EXPECT_EQ(codes, 7);
    EXPECT_TRUE(is_empty_except(target, {"config.json"}));
  }
}

TEST(OutputFolder, StartsAfreshAfterAKill) {
  const TempFolder root;
  killed([&] {
    OutputFolder out = OutputFolder::create(root / "new", {.job_key = "k"});
    write_file(out.work() / "half", "h");
    out.save_progress("half");
    raise(SIGKILL);
  });
  EXPECT_TRUE(fs::exists(root / ".new.roundel-partial"));
  OutputFolder out = OutputFolder::create(root / "new", {.job_key = "k"});
  EXPECT_FALSE(out.resumed());
  EXPECT_EQ(out.progress(), "");
  EXPECT_FALSE(fs::exists(out.work() / "half"));
}

TEST(OutputFolder, ResumesAfterAKill) {
  const TempFolder root;
  killed([&] {
    OutputFolder out = OutputFolder::create(root / "new", {.job_key = "k"});
    write_file(out.work() / "half", "h");
    out.save_progress("half");
    raise(SIGKILL);
  });
  {
    OutputFolder out = OutputFolder::create(root / "new", {.resume = true, .job_key = "k"});
    EXPECT_TRUE(out.resumed());
    EXPECT_EQ(out.progress(), "half");
    EXPECT_EQ(read_file(out.work() / "half"), "h");
    out.save_progress("two thirds");
    out.keep_for_resume();
  }
  OutputFolder out = OutputFolder::create(root / "new", {.resume = true, .job_key = "k"});
  EXPECT_EQ(out.progress(), "two thirds");
  out.commit();
  EXPECT_TRUE(is_empty_except(root.path(), {"new"}));
  EXPECT_TRUE(is_empty_except(root / "new", {"half"}));
}

TEST(OutputFolder, RefusesToResumeAnotherJob) {
  const TempFolder root;
  killed([&] {
    OutputFolder out = OutputFolder::create(root / "new", {.job_key = "k"});
    write_file(out.work() / "half", "h");
    raise(SIGKILL);
  });
  expect_refused(root / "new", {.resume = true, .job_key = "other"},
                 {"source", "options", "version", "--resume"});
  EXPECT_TRUE(fs::exists(root / ".new.roundel-partial/files/half"));  // still there for the right job
  write_file(root / ".new.roundel-partial/state.json", "{\"job_key\":");
  expect_refused(root / "new", {.resume = true, .job_key = "k"}, {"state.json", "--resume"});
}

TEST(OutputFolder, ResumesNothingWhereThereIsNothing) {
  const TempFolder root;
  OutputFolder out = OutputFolder::create(root / "new", {.resume = true, .job_key = "k"});
  EXPECT_FALSE(out.resumed());
}

TEST(OutputFolder, DoesNotTouchWhatAppearedMeanwhile) {
  const TempFolder root;
  {
    OutputFolder out = OutputFolder::create(root / "new", {});
    write_file(out.work() / "config.json", "{}");
    fs::create_directory(root / "new");
    write_file(root / "new/notes", "n");
    expect_error([&] { out.commit(); }, {"cannot rename"});
  }
  EXPECT_TRUE(is_empty_except(root / "new", {"notes"}));
}

TEST(OutputFolder, LeavesTheNextRunAloneAfterCommit) {
  const TempFolder root;
  {
    OutputFolder out = OutputFolder::create(root / "new", {});
    out.commit();
    fs::create_directory(root / ".new.roundel-partial");
    write_file(root / ".new.roundel-partial/lock", "someone else");
  }
  EXPECT_TRUE(fs::exists(root / ".new.roundel-partial/lock"));
}

}  // namespace
}  // namespace roundel
