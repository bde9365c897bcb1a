#include "quantize/calibration/sample_store.h"

#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/process.h"

namespace roundel {
namespace {

uint64_t padded_bytes(int64_t rows, int64_t cols) {
  return static_cast<uint64_t>(rows * round_up(cols, kColumnUnit)) * sizeof(float);
}

// Removed at once: the space is freed when the file is closed, whatever ends the process.
File nameless_file() {
  std::string name = (std::filesystem::temp_directory_path() / "roundel_activations_XXXXXX").string();
  const int fd = ::mkstemp(name.data());
  if (fd < 0)
    fail(ErrorCode::kIo, "{}: cannot create a temporary file; set TMPDIR to a folder with space", name);
  File created = File::open_write(name);
  std::filesystem::remove(name);
  ::close(fd);
  return created;
}

}  // namespace

Activations copy_activations(const Activations& from) {
  Activations to(from.rows, from.cols);
  if (to.data.size() > 0) std::memcpy(to.data.data(), from.data.data(), to.data.size());
  return to;
}

SampleStore::SampleStore(std::vector<int64_t> tokens, int64_t hidden, int64_t widest, bool on_disk)
    : tokens_(std::move(tokens)), hidden_(hidden), on_disk_(on_disk), states_(on_disk ? 0 : tokens_.size()) {
  if (!on_disk_) return;
  file_ = nameless_file();
  uint64_t at = 0;
  for (const int64_t t : tokens_) {
    offsets_.push_back(at);
    at += padded_bytes(t, hidden) + padded_bytes(t, widest);
  }
  file_.set_size(at);
  input_cols_.resize(tokens_.size());
}

uint64_t SampleStore::bytes(const std::vector<int64_t>& tokens, int64_t hidden, int64_t widest) {
  uint64_t total = 0;
  for (const int64_t t : tokens) total += padded_bytes(t, hidden) + padded_bytes(t, widest);
  return total;
}

SampleState SampleStore::load(size_t i) const {
  SampleState s;
  s.x = Activations(tokens_[i], hidden_);
  file_.read_at(offsets_[i], s.x.data.data(), padded_bytes(tokens_[i], hidden_));
  if (input_cols_[i] > 0) {
    s.input = Activations(tokens_[i], input_cols_[i]);
    file_.read_at(offsets_[i] + padded_bytes(tokens_[i], hidden_), s.input.data.data(),
                  padded_bytes(tokens_[i], input_cols_[i]));
  }
  return s;
}

void SampleStore::save(size_t i, const SampleState& s) {
  const uint64_t bytes = padded_bytes(tokens_[i], hidden_);
  file_.write_at(offsets_[i], s.x.data.data(), bytes);
  input_cols_[i] = s.input.cols;
  if (s.input.cols > 0)
    file_.write_at(offsets_[i] + bytes, s.input.data.data(), padded_bytes(tokens_[i], s.input.cols));
}

void SampleStore::visit(size_t i, FunctionRef<void(SampleState&)> f) {
  throw_if_interrupted();
  if (!on_disk_) return f(states_[i]);
  SampleState s = load(i);
  f(s);
  save(i, s);
}

void SampleStore::look(size_t i, FunctionRef<void(const SampleState&)> f) const {
  throw_if_interrupted();
  if (!on_disk_) return f(states_[i]);
  f(load(i));
}

}  // namespace roundel
