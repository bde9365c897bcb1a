// Tensors for the tests of the codec: from a file, or in memory.
#pragma once
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/safetensors.h"
#include "codec/encoder.h"
#include "codec/format.h"

namespace roundel {

class FileTensors : public TensorSource {
 public:
  explicit FileTensors(const std::filesystem::path& path)
      : file_(File::open_read(path)), header_(read_safetensors_header(file_)) {}
  const TensorSpec* find(std::string_view name) const override {
    for (const SafetensorsEntry& entry : header_.tensors) {
      if (entry.spec.name == name) return &entry.spec;
    }
    return nullptr;
  }
  void read(const TensorSpec& spec, uint64_t offset, void* to, size_t bytes) const override {
    for (const SafetensorsEntry& entry : header_.tensors) {
      if (&entry.spec == &spec) return file_.read_at(header_.data_start + entry.begin + offset, to, bytes);
    }
    fail(ErrorCode::kInvalid, "{} is not of this file", spec.name);
  }
  const SafetensorsHeader& header() const { return header_; }
  std::vector<uint8_t> bytes(const std::string& name) const {
    const TensorSpec* spec = find(name);
    if (!spec) fail(ErrorCode::kNotFound, "no tensor {}", name);
    std::vector<uint8_t> all(spec->bytes());
    read(*spec, 0, all.data(), all.size());
    return all;
  }

 private:
  File file_;
  SafetensorsHeader header_;
};

class MemoryTensors : public TensorSource {
 public:
  // Bytes that nobody writes are 0xcd.
  void reserve(const TensorSpec& spec) {
    tensors_[spec.name] = {spec, std::vector<uint8_t>(spec.bytes(), 0xcd)};
  }
  template <class T>
  void set(const std::string& name, DType dtype, const Shape& shape, const std::vector<T>& values) {
    Entry entry{{name, dtype, shape}, std::vector<uint8_t>(values.size() * sizeof(T))};
    if (!values.empty()) std::memcpy(entry.bytes.data(), values.data(), entry.bytes.size());
    tensors_[name] = entry;
  }
  void remove(const std::string& name) { tensors_.erase(name); }
  void rename_shape(const std::string& name, const Shape& shape) { tensors_.at(name).spec.shape = shape; }
  void set_dtype(const std::string& name, DType dtype) { tensors_.at(name).spec.dtype = dtype; }
  const TensorSpec* find(std::string_view name) const override {
    const auto it = tensors_.find(std::string(name));
    return it == tensors_.end() ? nullptr : &it->second.spec;
  }
  void read(const TensorSpec& spec, uint64_t offset, void* to, size_t bytes) const override {
    const Entry& entry = tensors_.at(spec.name);
    CHECK(offset + bytes <= entry.bytes.size());
    if (bytes) std::memcpy(to, entry.bytes.data() + offset, bytes);
  }
  void write(const std::string& name, uint64_t offset, const void* data, size_t bytes) {
    Entry& entry = tensors_.at(name);
    CHECK(offset + bytes <= entry.bytes.size());
    if (bytes) std::memcpy(entry.bytes.data() + offset, data, bytes);
    written_[name] += bytes;
  }
  TensorSink sink() {
    return [this](const std::string& name, uint64_t offset, const void* data, size_t bytes) {
      write(name, offset, data, bytes);
    };
  }
  std::vector<uint8_t>& bytes(const std::string& name) { return tensors_.at(name).bytes; }
  uint64_t written(const std::string& name) { return written_[name]; }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& [name, entry] : tensors_) all.insert(name);
    return all;
  }

 private:
  struct Entry {
    TensorSpec spec;
    std::vector<uint8_t> bytes;
  };
  std::map<std::string, Entry> tensors_;
  std::map<std::string, uint64_t> written_;
};

// All rows of `source` through the encoder in chunks of `chunk` rows, each given to sink(rows).
template <class Sink>
void encode_all(WeightEncoder& encoder, const std::vector<uint8_t>& source, int64_t rows, int64_t chunk,
                ThreadPool& pool, Sink sink) {
  const int64_t row_bytes = rows > 0 ? static_cast<int64_t>(source.size()) / rows : 0;
  const auto each = [&](auto fn) {
    for (int64_t row0 = 0; row0 < rows; row0 += chunk) {
      fn(source.data() + row0 * row_bytes, row0, std::min(chunk, rows - row0));
    }
  };
  for (; encoder.wants_pass(); encoder.end_pass())
    each([&](const uint8_t* x, int64_t row0, int64_t n) { encoder.observe(x, row0, n, pool); });
  QuantizedRows out;
  each([&](const uint8_t* x, int64_t row0, int64_t n) {
    encoder.encode(x, row0, n, &out, pool);
    sink(out);
  });
}

inline QuantizedRows encode_whole(const QuantArgs& args, DType dtype, const std::vector<uint8_t>& source,
                                  int64_t rows, int64_t cols, ThreadPool& pool) {
  WeightEncoder encoder(args, rows, cols, dtype, "model.layers.0.mlp.up_proj");
  QuantizedRows all;
  encode_all(encoder, source, rows, round_up(std::max<int64_t>(rows, 1), kChunkUnit), pool,
             [&](const QuantizedRows& chunk) { all = chunk; });
  return all;
}

// Stores all rows in chunks of kChunkUnit.
inline void store_all(const StorageFormat& format, const StoredWeight& stored, const QuantizedRows& all,
                      MemoryTensors* to) {
  for (const TensorSpec& spec : format.layout(stored)) to->reserve(spec);
  for (int64_t row0 = 0; row0 < all.rows; row0 += kChunkUnit) {
    QuantizedRows part;
    part.row0 = row0, part.rows = std::min(kChunkUnit, all.rows - row0), part.cols = all.cols,
    part.groups = all.groups;
    const auto slice = [&](const auto& from, int64_t width, auto& values) {
      if (!from.empty())
        values.assign(from.begin() + row0 * width, from.begin() + (row0 + part.rows) * width);
    };
    slice(all.codes, all.cols, part.codes);
    slice(all.scales, all.groups, part.scales);
    slice(all.zero_points, all.groups, part.zero_points);
    format.store(stored, part, to->sink());
  }
}

inline std::string problem_text(const Problems& problems) {
  std::string text;
  for (const Problem& p : problems.list()) text += p.where + ": " + p.message + "\n";
  return text;
}

}  // namespace roundel
