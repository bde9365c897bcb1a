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

std::string targets_text(const std::vector<std::string>& targets, const std::vector<std::string>& ignore) {
  return fmt::format("[{}] not [{}]", fmt::join(targets, " "), fmt::join(ignore, " "));
}

std::string mappings_text(const std::vector<SmoothMapping>& mappings,
                          const std::vector<std::string>& ignore) {
  std::string text = targets_text({}, ignore);
  for (const SmoothMapping& m : mappings)
    text += fmt::format(" {} <- [{}]", m.smooth, fmt::join(m.balance, " "));
  return text;
}

struct StepText {
  std::string operator()(const SmoothQuantStep& s) const {
    return fmt::format("smoothquant {} {} {}", s.strength ? fmt::format("{}", *s.strength) : "auto",
                       static_cast<int>(s.algorithm), mappings_text(s.mappings, s.ignore));
  }
  std::string operator()(const AwqStep& s) const {
    return fmt::format("awq {} {} {}", s.n_grid, static_cast<int>(s.duo_scaling),
                       mappings_text(s.mappings, s.ignore));
  }
  std::string operator()(const RtnStep& s) const { return "rtn " + targets_text(s.targets, s.ignore); }
  std::string operator()(const GptqStep& s) const {
    return fmt::format("gptq {} {} {} {}", s.block_size, s.dampening_frac,
                       s.actorder ? static_cast<int>(*s.actorder) : -1, targets_text(s.targets, s.ignore));
  }
  std::string operator()(const BestStep& s) const { return "best " + targets_text(s.targets, s.ignore); }
};

// Steps and tokens: all that the result depends on.
std::string describe_calibration(const Calibration& c) {
  std::string text = fmt::format("calibration {}\n{}\n", c.propagate_error, c.samples_text);
  for (const CalibrationStep& step : c.steps) text += std::visit(StepText(), step) + "\n";
  for (const std::vector<int32_t>& sample : c.samples)
    text += fmt::format("{} {}\n", sample.size(), fmt::join(sample, " "));
  return text;
}

}  // namespace

std::string job_key(const ModelFiles& files, const Plan& plan, uint64_t max_shard_bytes,
                    const Calibration* calibration) {
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
  if (plan.kv_cache) text += "key/value cache " + to_json(*plan.kv_cache).dump() + "\n";
  if (files.rotation.any()) text += "rotation " + rotation_text(files.rotation) + "\n";
  if (calibration) text += describe_calibration(*calibration);
  return fmt::format("{:016x}", fingerprint(text));
}

}  // namespace roundel
