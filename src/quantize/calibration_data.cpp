#include "quantize/calibration_data.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/process.h"
#include "base/rng.h"
#include "quantize/calibration_lines.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace roundel {
namespace {

constexpr size_t kMaxLines = 16u << 20;  // of which a shuffle remembers where they begin

// The first `take` of n things in shuffled order.
std::vector<size_t> shuffled(size_t n, size_t take, uint64_t seed) {
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  for (size_t i = 0; i < std::min(take, n); ++i)
    std::swap(order[i], order[i + random_u64(seed, i) % (n - i)]);
  order.resize(std::min(take, n));
  return order;
}

class Reader {
 public:
  Reader(const CalibrationSource& source, const Tokenizer& tokenizer, const CalibrationLimits& limits)
      : source_(source), tokenizer_(tokenizer), limits_(limits), name_(source.file.string()) {
    data_.source = source;
  }

  CalibrationData read() {
    check_request();
    const File file = File::open_read(source_.file);
    const uint64_t size = file.size();
    if (size == 0) fail(ErrorCode::kInvalid, "{}: empty; calibration needs text", name_);
    check_text(file, size);
    const std::string extension = source_.file.extension().string();
    const bool lines = extension == ".jsonl" || extension == ".ndjson" || extension == ".json";
    data_.kind = lines ? "jsonl" : "text";
    if (lines)
      read_lines();
    else
      read_text(file, size);
    finish();
    return std::move(data_);
  }

 private:
  void check_request() const {
    if (source_.samples < 1) fail(ErrorCode::kUsage, "--samples {}: at least 1", source_.samples);
    if (source_.seq_len < 1 || source_.seq_len > limits_.max_position)
      fail(ErrorCode::kInvalid, "--seq-len {}: expected 1 to {} (max_position_embeddings of the model)",
           source_.seq_len, limits_.max_position);
  }

  void check_text(const File& file, uint64_t size) const {
    std::string head(std::min<uint64_t>(size, 4096), '\0');
    file.read_at(0, head.data(), head.size());
    for (const char* magic : {"PAR1", "\x1f\x8b", "PK\x03\x04", "\x28\xb5\x2f\xfd"})
      if (head.starts_with(magic)) refuse_binary();
    if (head.find('\0') != std::string::npos) refuse_binary();
  }
  [[noreturn]] void refuse_binary() const {
    fail(ErrorCode::kInvalid,
         "{}: not text (a parquet file, an archive, UTF-16?); calibration reads plain UTF-8 text, or JSONL "
         "with "
         "`text` or `messages`",
         name_);
  }

  // The beginning of the file, up to a line's end where one is near; the whole file when it is not longer than `bytes`.
  std::string beginning(const File& file, uint64_t size, uint64_t bytes) const {
    std::string text(std::min(size, bytes), '\0');
    file.read_at(0, text.data(), text.size());
    if (text.size() == size) return text;
    const size_t newline = text.rfind('\n');
    if (newline != std::string::npos && newline > text.size() / 2) text.resize(newline + 1);
    return text;
  }

  // Reads as much of the file as the samples need. A cut changes the tokens beside it only: some more than needed are
  // asked for.
  void read_text(const File& file, uint64_t size) {
    constexpr uint64_t kLeast = 1 << 20, kMost = 8 << 20, kBeyond = 4096;
    const uint64_t n = static_cast<uint64_t>(source_.seq_len);
    const uint64_t wanted = checked_mul(static_cast<uint64_t>(source_.samples), n, "--samples x --seq-len");
    const bool whole = source_.seed.has_value();
    if (whole && size > limits_.max_text_bytes)
      fail(ErrorCode::kLimit,
           "{}: {} bytes; shuffling needs the whole text in memory, at most {}: give a part of it, JSONL, or "
           "no "
           "--calib-seed",
           name_, size, limits_.max_text_bytes);
    std::vector<int32_t> ids;
    for (uint64_t bytes = whole ? size : std::clamp(std::min(wanted, kMost) * 8, kLeast, kMost);;
         bytes *= 2) {
      throw_if_interrupted();
      bytes = std::min(bytes, limits_.max_text_bytes);
      ids = tokenizer_.encode(beginning(file, size, bytes));
      if (bytes >= size || ids.size() >= wanted + kBeyond) break;
      if (bytes == limits_.max_text_bytes)
        fail(ErrorCode::kLimit,
             "{}: {} samples of {} tokens need more than its first {} bytes: ask for fewer", name_,
             source_.samples, n, limits_.max_text_bytes);
    }
    const size_t available = ids.size() / n;
    if (available == 0)
      fail(ErrorCode::kInvalid,
           "{}: {} tokens, fewer than one sample of {}: give a longer text or a smaller --seq-len", name_,
           ids.size(), n);
    cut_text(ids, available);
  }

  void cut_text(const std::vector<int32_t>& ids, size_t available) {
    const size_t n = static_cast<size_t>(source_.seq_len);
    const size_t take = std::min(available, static_cast<size_t>(source_.samples));
    std::vector<size_t> order;
    if (source_.seed) order = shuffled(available, take, *source_.seed);
    for (size_t i = 0; i < take; ++i) {
      const auto begin = ids.begin() + static_cast<std::ptrdiff_t>((order.empty() ? i : order[i]) * n);
      data_.samples.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(n));
    }
  }

  void read_lines() {
    JsonLines lines(source_.file, limits_.max_line_bytes);
    if (!source_.seed) {
      while (!enough() && lines.next()) add_line(lines);
      return;
    }
    std::vector<JsonLines::Place> places;
    while (lines.next()) {
      throw_if_interrupted();
      if (places.size() == kMaxLines)
        fail(ErrorCode::kLimit, "{}: more than {} lines cannot be shuffled: give a part of the file", name_,
             kMaxLines);
      places.push_back(lines.place());
    }
    for (const size_t i : shuffled(places.size(), places.size(), *source_.seed)) {
      if (enough()) break;
      lines.go_to(places[i]);
      if (lines.next()) add_line(lines);
    }
  }

  bool enough() const { return data_.samples.size() >= static_cast<size_t>(source_.samples); }

  void add_line(const JsonLines& lines) {
    throw_if_interrupted();
    const std::string where = fmt::format("{}: line {}", name_, lines.number());
    std::vector<int32_t> ids = tokenizer_.encode(text_of(parse_line(lines.text(), where), where));
    if (ids.empty()) {
      ++data_.empty_lines;
      return;
    }
    const size_t n = static_cast<size_t>(source_.seq_len);
    if (ids.size() > n) {
      ++data_.cut_lines;
      ids.resize(n);
    }
    data_.samples.push_back(std::move(ids));
  }

  OrderedJson parse_line(const std::string& line, const std::string& where) const {
    try {
      return parse_ordered_json(line, where, {.max_bytes = limits_.max_line_bytes});
    } catch (const Error& e) {
      std::string text = e.what();  // a line of its own has no lines
      if (const size_t at = text.find("at line 1, "); at != std::string::npos) text.erase(at + 3, 8);
      fail(e.code(), "{} (JSONL holds one object a line{})", text,
           line.starts_with("[") || line.starts_with("{\r") || line == "{" ? ", not one document over many"
                                                                           : "");
    }
  }

  std::string text_of(const OrderedJson& object, const std::string& where) {
    if (!object.is_object())
      fail(ErrorCode::kInvalid, "{}: a {}, expected an object with `text` or `messages`", where,
           object.type_name());
    if (const auto text = object.find("text"); text != object.end() && !text->is_null()) {
      if (!text->is_string())
        fail(ErrorCode::kInvalid, "{}: \"text\" is a {}, expected a string", where, text->type_name());
      return text->get<std::string>();
    }
    if (const auto messages = object.find("messages"); messages != object.end() && !messages->is_null())
      return conversation(*messages, where);
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.push_back(key.substr(0, 40));
    std::string guess;
    for (const char* wanted : {"text", "messages"})
      if (const std::string near = nearest(wanted, keys); !near.empty()) guess = near;
    if (keys.size() > 8) keys.resize(8);
    fail(ErrorCode::kInvalid, "{}: neither \"text\" nor \"messages\"; the line has {}{}", where,
         keys.empty() ? "no fields" : fmt::format("{}", fmt::join(keys, ", ")),
         guess.empty() ? "" : "; is \"" + guess + "\" meant?");
  }

  std::string conversation(const OrderedJson& messages, const std::string& where) {
    if (!messages.is_array() || messages.empty())
      fail(ErrorCode::kInvalid, "{}: \"messages\" is {}, expected a list of {{role, content}}", where,
           messages.is_array() ? "empty" : fmt::format("a {}", messages.type_name()));
    for (size_t i = 0; i < messages.size(); ++i) {
      const OrderedJson& m = messages[i];
      if (!m.is_object() || !m.contains("role") || !m["role"].is_string())
        fail(ErrorCode::kInvalid, "{}: messages[{}] has no \"role\" that is a string", where, i);
    }
    if (!template_) template_ = std::make_unique<ChatTemplate>(ChatTemplate::load(limits_.template_folder));
    try {
      return template_->render(messages, {.add_generation_prompt = false});
    } catch (Error& e) {
      e.add_context(where);
      throw;
    }
  }

  void finish() {
    if (data_.samples.empty())
      fail(ErrorCode::kInvalid, "{}: no line gives a token ({} without text); calibration needs at least one",
           name_, data_.empty_lines);
    uint64_t h = 0xcbf29ce484222325ull;  // FNV-1a over 32-bit words
    const auto add = [&h](uint32_t word) { h = (h ^ word) * 0x100000001b3ull; };
    for (const std::vector<int32_t>& sample : data_.samples) {
      for (const int32_t id : sample) {
        if (id < 0 || id >= limits_.vocab_size)
          fail(ErrorCode::kInvalid,
               "{}: token {} (\"{}\") is not below the model's vocabulary of {}: the tokenizer is not that "
               "of the "
               "model",
               name_, id, tokenizer_.token(id), limits_.vocab_size);
        add(std::bit_cast<uint32_t>(id));
      }
      add(0xffffffffu);
      data_.tokens += static_cast<int64_t>(sample.size());
    }
    data_.fingerprint = h;
    const int64_t used = static_cast<int64_t>(data_.samples.size());
    if (used < source_.samples)
      log_warn("{}: {} samples, not the {} asked for; all of them are used", name_, used, source_.samples);
  }

  const CalibrationSource& source_;
  const Tokenizer& tokenizer_;
  const CalibrationLimits& limits_;
  const std::string name_;
  std::unique_ptr<ChatTemplate> template_;
  CalibrationData data_;
};

}  // namespace

CalibrationData read_calibration_data(const CalibrationSource& source, const Tokenizer& tokenizer,
                                      const CalibrationLimits& limits) {
  return Reader(source, tokenizer, limits).read();
}

std::string describe(const CalibrationData& data) {
  std::string text = fmt::format("{}: {} samples, {} tokens ({}, ", data.source.file.string(),
                                 data.samples.size(), data.tokens, data.kind);
  text += data.source.seed ? fmt::format("shuffled with seed {}", *data.source.seed) : "in order";
  if (data.cut_lines) text += fmt::format(", {} lines cut to {} tokens", data.cut_lines, data.source.seq_len);
  if (data.empty_lines) text += fmt::format(", {} lines without tokens left out", data.empty_lines);
  return text + ")";
}

std::string calibration_record(const CalibrationData& data) {
  OrderedJson record;
  record["file"] = data.source.file.string();
  record["kind"] = data.kind;
  record["samples"] = data.samples.size();
  record["seq_len"] = data.source.seq_len;
  record["tokens"] = data.tokens;
  record["seed"] = data.source.seed ? OrderedJson(*data.source.seed) : OrderedJson(nullptr);
  record["fingerprint"] = fmt::format("{:016x}", data.fingerprint);
  return record.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace roundel
