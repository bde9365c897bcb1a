#include "quantize/job_key.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "roundel/version.h"

namespace roundel {
namespace {

// FNV-1a, 64 bits: a fingerprint against mistakes, not against an adversary.
uint64_t fingerprint(const std::string& text) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return h;
}

// Size and modification time stand for a file's contents: hashing terabytes would cost more than the job.
std::string file_identity(const std::filesystem::path& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return "absent";
  return fmt::format("{} {}.{:09}", st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

}  // namespace

std::string job_key(const ModelFiles& files, const Plan& plan, uint64_t max_shard_bytes) {
  std::string text = fmt::format("version {}\nshard {}\n", kVersion, max_shard_bytes);
  text += files.checkpoint.config().dump() + "\n";
  for (const Checkpoint::FileInfo& f : files.checkpoint.files())
    text += f.name + " " + file_identity(files.checkpoint.folder() / f.name) + "\n";
  for (const PlanEntry& e : plan.entries) {
    text += e.module.name + " " + e.scheme.format;
    for (const auto& args : {e.scheme.weights, e.scheme.input, e.scheme.output})
      text += args ? " " + to_json(*args).dump() : " -";
    text += "\n";
  }
  return fmt::format("{:016x}", fingerprint(text));
}

}  // namespace roundel
