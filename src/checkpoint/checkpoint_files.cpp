#include "checkpoint/checkpoint_files.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/quoted.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

struct Listing {
  std::vector<std::string> safetensors;  // sorted base names
  bool pickle = false, gguf = false, adapter = false;
};

Listing list_folder(const fs::path& folder) {
  Listing found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".safetensors")) found.safetensors.push_back(name);
    found.pickle |= name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth");
    found.gguf |= name.ends_with(".gguf");
    found.adapter |= name == "adapter_config.json";
  }
  if (error) fail(ErrorCode::kIo, "{}: cannot list the folder: {}", folder.string(), error.message());
  std::sort(found.safetensors.begin(), found.safetensors.end());
  return found;
}

// "model-00001-of-00003.safetensors"
bool is_shard_name(std::string_view name) {
  auto digits = [](std::string_view s) {
    return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  constexpr std::string_view kStart = "model-", kMiddle = "-of-", kEnd = ".safetensors";
  if (!name.starts_with(kStart) || !name.ends_with(kEnd)) return false;
  name = name.substr(kStart.size(), name.size() - kStart.size() - kEnd.size());
  const size_t middle = name.find(kMiddle);
  return middle != std::string_view::npos && digits(name.substr(0, middle)) &&
         digits(name.substr(middle + kMiddle.size()));
}

std::string joined(const std::vector<std::string>& names) {
  constexpr size_t kMax = 8;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMax; ++i) text += (i ? ", " : "") + shortened(names[i]);
  return names.size() > kMax ? text + fmt::format(" and {} more", names.size() - kMax) : text;
}

[[noreturn]] void fail_without_weights(const fs::path& folder, const Listing& found) {
  std::string hint;
  if (!found.safetensors.empty()) hint = "; it holds " + joined(found.safetensors);
  if (found.adapter) hint += "; it holds an adapter, which has to be merged into its base model first";
  if (found.gguf) hint += "; it holds a GGUF file, which 'roundel import' converts";
  if (found.pickle)
    hint += "; it holds PyTorch pickle files, which have to be converted to safetensors first";
  fail(ErrorCode::kNotFound, "{}: no weights: expected {} or {}{}", folder.string(), kSingleFile, kIndexFile,
       hint);
}

void check_present(const fs::path& folder, const SafetensorsIndex& index) {
  Problems missing;
  for (const std::string& name : index.shards) {
    std::error_code error;
    if (fs::status(folder / name, error).type() != fs::file_type::not_found) continue;
    const bool link = fs::is_symlink(folder / name, error);
    missing.add(shortened(name), link ? "is a link to " + fs::read_symlink(folder / name, error).string() +
                                            ", which does not exist"
                                      : "is missing");
  }
  missing.throw_if_any(fmt::format("{}: {} of the {} shards in {} are missing (an interrupted download?)",
                                   folder.string(), missing.list().size(), index.shards.size(), kIndexFile),
                       ErrorCode::kNotFound);
}

// Refuses a folder that holds another model beside the one of the index.
void check_unambiguous(const fs::path& folder, const Listing& found, CheckpointFiles& files) {
  std::vector<std::string> rivals, others;
  for (const std::string& name : found.safetensors) {
    if (std::binary_search(files.names.begin(), files.names.end(), name)) continue;
    (name == kSingleFile || is_shard_name(name) ? rivals : others).push_back(name);
  }
  if (!rivals.empty() && files.index)
    fail(ErrorCode::kInvalid,
         "{}: ambiguous: it holds {}, which {} does not list; remove the files that do not belong to the "
         "model",
         folder.string(), joined(rivals), kIndexFile);
  if (!rivals.empty())
    fail(
        ErrorCode::kInvalid,
        "{}: ambiguous: it holds {} and also {} without {}; remove the files that do not belong to the model",
        folder.string(), kSingleFile, joined(rivals), kIndexFile);
  if (!others.empty())
    files.warnings.push_back(fmt::format("{}: not read: {}", folder.string(), joined(others)));
}

bool exists_at_all(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

}  // namespace

CheckpointFiles find_checkpoint_files(const fs::path& folder) {
  const Listing found = list_folder(folder);
  CheckpointFiles files;
  if (exists_at_all(folder / kIndexFile)) {
    const fs::path path = folder / kIndexFile;
    files.index = parse_safetensors_index(read_text_file(path, 64ull << 20), path.string());
    files.names = files.index->shards;
    files.warnings = files.index->warnings;
    check_unambiguous(folder, found, files);
    check_present(folder, *files.index);
  } else if (exists_at_all(folder / kSingleFile)) {
    files.names = {kSingleFile};
    check_unambiguous(folder, found, files);
  } else if (std::any_of(found.safetensors.begin(), found.safetensors.end(), is_shard_name)) {
    fail(ErrorCode::kNotFound, "{}: {} is missing; it says which of the shards ({}) belong to the model",
         folder.string(), kIndexFile, joined(found.safetensors));
  } else {
    fail_without_weights(folder, found);
  }
  return files;
}

}  // namespace roundel
