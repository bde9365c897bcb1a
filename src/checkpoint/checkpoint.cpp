#include "checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "checkpoint/capped_problems.h"
#include "checkpoint/checkpoint_files.h"
#include "checkpoint/file_cache.h"
#include "checkpoint/quoted.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

// Tells whether a file that was opened again is still the one whose header was read.
struct Stamp {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  timespec changed{};

  explicit Stamp(const File& file) {
    struct stat st {};
    if (::fstat(file.fd(), &st) != 0) fail(ErrorCode::kIo, "{}: cannot stat", file.path().string());
    device = st.st_dev;
    inode = st.st_ino;
    size = st.st_size;
    changed = st.st_mtim;
  }
  bool operator==(const Stamp& o) const {
    return device == o.device && inode == o.inode && size == o.size && changed.tv_sec == o.changed.tv_sec &&
           changed.tv_nsec == o.changed.tv_nsec;
  }
};

struct Tensor {
  TensorSpec spec;
  uint32_t file = 0;
  uint64_t offset = 0;  // in the file
};

Json read_config(const fs::path& folder) {
  std::error_code error;
  const fs::file_type type = fs::status(folder, error).type();
  if (type == fs::file_type::not_found) fail(ErrorCode::kNotFound, "{}: no such folder", folder.string());
  if (type != fs::file_type::directory)
    fail(ErrorCode::kInvalid,
         "{}: not a folder; expected a checkpoint folder with config.json and safetensors files{}",
         folder.string(), folder.extension() == ".gguf" ? " ('roundel import' converts a GGUF file)" : "");
  const fs::path path = folder / "config.json";
  if (fs::status(path, error).type() == fs::file_type::not_found)
    fail(ErrorCode::kNotFound, "{}: config.json is missing; a checkpoint folder holds it beside the weights",
         folder.string());
  Json config = read_json_file(path);
  if (!config.is_object()) fail(ErrorCode::kInvalid, "{}: expected an object", path.string());
  return config;
}

}  // namespace

struct Checkpoint::Impl : public TensorSource {
  explicit Impl(const fs::path& path)
      : folder(path), config(read_config(path)), cache([this](size_t i) { return reopen(i); }) {}

  void add_file(const std::string& name);
  void index_names();
  // What the files hold.
  const TensorSpec* find(std::string_view name) const override;
  void read(const TensorSpec& spec, uint64_t offset, void* to, size_t bytes) const override;
  void check_index(const SafetensorsIndex& index);
  File reopen(size_t i) const;

  fs::path folder;
  Json config;
  std::vector<FileInfo> files;
  std::vector<Stamp> stamps;
  std::vector<Tensor> tensors;  // in file and data order
  std::unordered_map<std::string_view, uint32_t> by_name;
  std::vector<std::string> warnings;
  uint64_t bytes = 0;
  std::unique_ptr<TensorRewriter> rewriter;
  mutable FileCache cache;
};

void Checkpoint::Impl::index_names() {
  by_name.clear();
  by_name.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    by_name.try_emplace(tensors[i].spec.name, static_cast<uint32_t>(i));
}

const TensorSpec* Checkpoint::Impl::find(std::string_view name) const {
  const auto it = by_name.find(name);
  return it == by_name.end() ? nullptr : &tensors[it->second].spec;
}

void Checkpoint::Impl::read(const TensorSpec& spec, uint64_t offset, void* to, size_t n) const {
  const auto it = by_name.find(spec.name);
  CHECK(it != by_name.end());
  const Tensor& tensor = tensors[it->second];
  CHECK(tensor.file < files.size());
  const uint64_t size = tensor.spec.bytes();
  CHECK(offset <= size && n <= size - offset);
  if (n > 0) cache.file(tensor.file)->read_at(tensor.offset + offset, to, n);
}

void Checkpoint::Impl::add_file(const std::string& name) {
  const File file = File::open_read(folder / name);
  SafetensorsHeader header = read_safetensors_header(file);
  stamps.emplace_back(file);
  FileInfo info{name, file.size(), {}};
  info.tensors.reserve(header.tensors.size());
  for (SafetensorsEntry& entry : header.tensors) {
    info.tensors.push_back(entry.spec.name);
    bytes = checked_add(bytes, entry.spec.bytes(), "tensors of the checkpoint");
    tensors.push_back(
        {std::move(entry.spec), static_cast<uint32_t>(files.size()), header.data_start + entry.begin});
  }
  files.push_back(std::move(info));
}

// Only now: growing `tensors` moves the names.
void Checkpoint::Impl::check_index(const SafetensorsIndex& index) {
  CappedProblems problems;
  for (const Tensor& t : tensors) {
    const auto listed = index.shard_of.find(t.spec.name);
    const std::string& holder = files[t.file].name;
    if (const uint32_t first = by_name.at(t.spec.name); &tensors[first] != &t) {
      problems.add(in_quotes(t.spec.name),
                   fmt::format("is in two shards, {} and {}", shortened(files[tensors[first].file].name),
                               shortened(holder)));
    } else if (listed == index.shard_of.end()) {
      problems.add(in_quotes(t.spec.name), fmt::format("is in {}, but not in the index", shortened(holder)));
    } else if (index.shards[listed->second] != holder) {
      problems.add(in_quotes(t.spec.name), fmt::format("is in {}, the index says {}", shortened(holder),
                                                       shortened(index.shards[listed->second])));
    }
  }
  for (const auto& [name, shard] : index.shard_of)
    if (!by_name.contains(name))
      problems.add(in_quotes(name),
                   fmt::format("is in the index, but not in {}", shortened(index.shards[shard])));
  problems.throw_if_any((folder / kIndexFile).string() + ": index and shards disagree");
  if (index.total_size && *index.total_size != bytes)
    warnings.push_back(fmt::format("{}: metadata.total_size is {}, the tensors add up to {}",
                                   (folder / kIndexFile).string(), *index.total_size, bytes));
}

File Checkpoint::Impl::reopen(size_t i) const {
  File file = File::open_read(folder / files[i].name);
  const Stamp now(file);
  if (now == stamps[i]) return file;
  if (now.size < stamps[i].size)
    fail(ErrorCode::kInvalid, "{}: file is short by {} bytes: it shrank since it was opened",
         file.path().string(), stamps[i].size - now.size);
  fail(ErrorCode::kInvalid, "{}: the file changed since it was opened; start again when nothing writes to it",
       file.path().string());
}

Checkpoint Checkpoint::open(const fs::path& folder) {
  auto impl = std::make_unique<Impl>(folder);
  CheckpointFiles found = find_checkpoint_files(folder);
  impl->warnings = std::move(found.warnings);
  for (const std::string& name : found.names) impl->add_file(name);
  impl->index_names();
  if (found.index) impl->check_index(*found.index);
  return Checkpoint(std::move(impl));
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const TensorSpec* Checkpoint::find(std::string_view name) const {
  return impl_->find(name);
}

void Checkpoint::read(const TensorSpec& spec, uint64_t offset, void* to, size_t bytes) const {
  if (impl_->rewriter && impl_->rewriter->rewrites(spec.name))
    impl_->rewriter->read(*impl_, spec, offset, to, bytes);
  else
    impl_->read(spec, offset, to, bytes);
}

void Checkpoint::rewrite(std::unique_ptr<TensorRewriter> rewriter, std::vector<TensorSpec> added,
                         Json config) {
  for (TensorSpec& spec : added) {
    CHECK(rewriter->rewrites(spec.name));
    impl_->bytes = checked_add(impl_->bytes, spec.bytes(), "tensors of the checkpoint");
    impl_->tensors.push_back({std::move(spec), static_cast<uint32_t>(impl_->files.size()), 0});
  }
  impl_->index_names();
  impl_->rewriter = std::move(rewriter);
  impl_->config = std::move(config);
}

const fs::path& Checkpoint::folder() const {
  return impl_->folder;
}
const Json& Checkpoint::config() const {
  return impl_->config;
}
const std::vector<Checkpoint::FileInfo>& Checkpoint::files() const {
  return impl_->files;
}
const std::vector<std::string>& Checkpoint::warnings() const {
  return impl_->warnings;
}
uint64_t Checkpoint::total_tensor_bytes() const {
  return impl_->bytes;
}

std::vector<std::string> Checkpoint::tensor_names() const {
  std::vector<std::string> names;
  names.reserve(impl_->tensors.size());
  for (const Tensor& t : impl_->tensors) names.push_back(t.spec.name);
  return names;
}

}  // namespace roundel
