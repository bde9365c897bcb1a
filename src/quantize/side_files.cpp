#include "quantize/side_files.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "quantize/recipe.h"

namespace roundel {
namespace {

constexpr uint64_t kMaxSideFile = 256ull << 20;

void copy_side_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  const std::string text = read_text_file(from, kMaxSideFile);
  write_text_file(to, text);
}

}  // namespace

bool is_side_file(const std::string& name) {
  constexpr std::array kNever = {"config.json",          "quantize_config.json", "quant_config.json",
                                 "hf_quant_config.json", "recipe.yaml",          "SHA256SUMS"};
  if (std::find(kNever.begin(), kNever.end(), name) != kNever.end()) return false;
  if (name.starts_with(".") || name.ends_with(".index.json")) return false;
  for (const char* prefix : {"LICENSE", "NOTICE", "USE_POLICY"})
    if (name.starts_with(prefix)) return true;
  for (const char* suffix : {".json", ".model", ".txt", ".jinja", ".tiktoken"})
    if (name.ends_with(suffix)) return true;
  return false;
}

void write_side_files(const ModelFiles& files, const Plan& plan, const std::filesystem::path& folder,
                      const Calibration* calibration) {
  Json config = files.checkpoint.config();
  config.erase("compression_config");
  config["quantization_config"] = write_quant_config(plan);
  write_text_file(folder / "config.json", dump_json(config));
  write_text_file(folder / "recipe.yaml", write_recipe(plan, calibration, files.rotation));

  std::vector<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(files.checkpoint.folder())) {
    const std::string name = item.path().filename().string();
    if (item.is_regular_file() && is_side_file(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) copy_side_file(files.checkpoint.folder() / name, folder / name);
}

}  // namespace roundel
