#include "checkpoint/tensor_writer.h"

#include <atomic>
#include <unordered_map>

#include "base/file.h"
#include "checkpoint/file_cache.h"
#include "checkpoint/safetensors_index.h"
#include "checkpoint/shard_plan.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kWritebackStep = 32ull << 20;

struct Place {
  uint32_t shard = 0;
  uint64_t offset = 0;  // in the file
  uint64_t bytes = 0;
};

struct ShardState {
  std::atomic<bool> dirty{true};
  std::atomic<uint64_t> written{0};
};

void create(const fs::path& path, const ShardPlan& shard) {
  File file = File::open_write(path);
  file.set_size(shard.file_bytes);
  file.write_at(0, shard.header.data(), shard.header.size());
  file.close();
}

void check_existing(const fs::path& path, const ShardPlan& shard) {
  auto reject = [&](const std::string& why) {
    fail(ErrorCode::kInvalid, "{}: cannot be resumed: {}; start afresh without --resume", path.string(), why);
  };
  std::error_code error;
  if (!fs::exists(path, error)) reject("it is missing");
  const File file = File::open_read(path);
  if (file.size() != shard.file_bytes)
    reject(fmt::format("it has {} bytes, expected {}", file.size(), shard.file_bytes));
  std::string header(shard.header.size(), '\0');
  file.read_at(0, header.data(), header.size());
  if (header != shard.header) reject("its header is not that of this job");
}

}  // namespace

struct TensorWriter::Impl {
  Impl(const fs::path& path, std::vector<ShardPlan> plan)
      : folder(path),
        shards(std::move(plan)),
        states(shards.size()),
        cache([this](size_t i) { return reopen(i); }) {}

  File reopen(size_t i) const;

  fs::path folder;
  std::vector<ShardPlan> shards;
  std::vector<ShardState> states;
  std::unordered_map<std::string_view, Place> places;
  FileCache cache;
  bool finished = false;
  bool broken = false;  // a flush failed: the kernel may have dropped data, and a second try would not say so
};

File TensorWriter::Impl::reopen(size_t i) const {
  File file = File::open_write(folder / shards[i].file_name, true);
  if (file.size() != shards[i].file_bytes)
    fail(ErrorCode::kIo,
         "{}: has {} bytes, expected {}: something else removed or changed it during this run",
         file.path().string(), file.size(), shards[i].file_bytes);
  return file;
}

TensorWriter::TensorWriter(const fs::path& folder, std::vector<TensorSpec> specs,
                           const TensorWriterOptions& options)
    : impl_(std::make_unique<Impl>(folder, plan_shards(std::move(specs), options.max_shard_bytes))) {
  for (size_t i = 0; i < impl_->shards.size(); ++i) {
    const ShardPlan& shard = impl_->shards[i];
    uint64_t offset = shard.header.size();
    for (const TensorSpec& t : shard.tensors) {
      impl_->places.emplace(t.name, Place{static_cast<uint32_t>(i), offset, t.bytes()});
      offset += t.bytes();
    }
    if (options.keep_existing) {
      check_existing(folder / shard.file_name, shard);
    } else {
      create(folder / shard.file_name, shard);
    }
  }
}

TensorWriter::~TensorWriter() = default;

void TensorWriter::write(std::string_view name, uint64_t offset, const void* data, size_t bytes) {
  const auto it = impl_->places.find(name);
  CHECK(it != impl_->places.end() && !impl_->finished);
  const Place& place = it->second;
  CHECK(offset <= place.bytes && bytes <= place.bytes - offset);
  if (bytes == 0) return;
  const std::shared_ptr<File> file = impl_->cache.file(place.shard);
  file->write_at(place.offset + offset, data, bytes);
  ShardState& state = impl_->states[place.shard];
  state.dirty = true;
  const uint64_t before = state.written.fetch_add(bytes);
  if (before / kWritebackStep != (before + bytes) / kWritebackStep)
    file->start_writeback(0, 0);  // 0 bytes: to the end
}

void TensorWriter::flush() {
  if (impl_->broken) fail(ErrorCode::kIo, "{}: an earlier flush failed", impl_->folder.string());
  impl_->broken = true;
  for (size_t i = 0; i < impl_->shards.size(); ++i)
    if (impl_->states[i].dirty.exchange(false)) impl_->cache.file(i)->sync();
  impl_->broken = false;
}

void TensorWriter::finish() {
  flush();
  impl_->cache.close_all();
  impl_->finished = true;
  write_index();
}

void TensorWriter::write_index() const {
  if (impl_->shards.size() == 1) return;
  std::vector<std::pair<std::string, std::vector<std::string>>> map;
  uint64_t total = 0;
  for (const ShardPlan& shard : impl_->shards) {
    map.emplace_back(shard.file_name, std::vector<std::string>());
    for (const TensorSpec& t : shard.tensors) map.back().second.push_back(t.name);
    total += shard.file_bytes - shard.header.size();
  }
  write_text_file(impl_->folder / kIndexFile, make_safetensors_index(map, total));
}

std::vector<std::string> TensorWriter::file_names() const {
  std::vector<std::string> names;
  for (const ShardPlan& shard : impl_->shards) names.push_back(shard.file_name);
  return names;
}

uint64_t TensorWriter::total_bytes(const std::vector<TensorSpec>& specs) {
  uint64_t bytes = 0;
  for (const TensorSpec& s : specs) bytes = checked_add(bytes, s.bytes(), "tensors to write");
  return bytes;
}

}  // namespace roundel
