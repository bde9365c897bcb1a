#include "checkpoint/safetensors.h"

#include <algorithm>
#include <numeric>

#include "checkpoint/file_kind.h"
#include "checkpoint/quoted.h"
#include "checkpoint/safetensors_sax.h"

namespace roundel {
namespace {

constexpr uint64_t kPrefix = 8;

void check_names(const SafetensorsHeader& header, const std::string& file) {
  const auto& tensors = header.tensors;
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return tensors[a].spec.name < tensors[b].spec.name; });
  for (size_t i = 1; i < order.size(); ++i)
    if (tensors[order[i - 1]].spec.name == tensors[order[i]].spec.name)
      fail(ErrorCode::kInvalid, "{}: duplicate tensor {}", file, in_quotes(tensors[order[i]].spec.name));
}

// Sorts by position; the ranges must begin at 0, touch each other and end with the data.
void check_cover(SafetensorsHeader& header, uint64_t data_bytes, const std::string& file) {
  auto before = [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    const uint64_t x = a.spec.bytes(), y = b.spec.bytes();
    return x != y ? x < y : a.spec.name < b.spec.name;
  };
  if (!std::is_sorted(header.tensors.begin(), header.tensors.end(), before))
    std::sort(header.tensors.begin(), header.tensors.end(), before);
  uint64_t end = 0;
  std::string_view last;
  for (const SafetensorsEntry& t : header.tensors) {
    if (t.begin < end)
      fail(ErrorCode::kInvalid,
           "{}: tensors {} and {} overlap: the first ends at offset {}, the second begins at {}", file,
           in_quotes(last), in_quotes(t.spec.name), end, t.begin);
    if (t.begin > end)
      fail(ErrorCode::kInvalid,
           "{}: hole of {} bytes in the data before tensor {}: offsets {} to {} belong to nobody", file,
           t.begin - end, in_quotes(t.spec.name), end, t.begin);
    end = t.begin + t.spec.bytes();  // is its data_offsets[1]: no overflow
    last = t.spec.name;
  }
  if (end > data_bytes)
    fail(ErrorCode::kInvalid,
         "{}: file is short by {} bytes: tensor {} ends at offset {}, the data end at {} (an interrupted "
         "download?)",
         file, end - data_bytes, in_quotes(last), end, data_bytes);
  if (end < data_bytes)
    fail(ErrorCode::kInvalid, "{}: {} trailing bytes after the last tensor ({})", file, data_bytes - end,
         last.empty() ? "there is none" : in_quotes(last));
}

uint64_t little_endian(const char* bytes) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& name) {
  if (json.size() > kMaxSafetensorsHeader)
    fail(ErrorCode::kInvalid, "{}: the header has {} bytes, at most {} are allowed", name, json.size(),
         kMaxSafetensorsHeader);
  if (json.empty() || json[0] != '{')
    fail(ErrorCode::kInvalid, "{}: the header does not begin with {{, expected a JSON object", name);
  if (const size_t at = json.find('\0');
      at != std::string_view::npos)  // would end the text for the JSON reader
    fail(ErrorCode::kInvalid, "{}: the header is not valid JSON: zero byte at its byte {}", name, at);
  SafetensorsHeader header;
  SafetensorsSax sax(header, name);
  Json::sax_parse(json.begin(), json.end(), &sax);
  check_names(header, name);
  check_cover(header, data_bytes, name);
  header.data_start = kPrefix + json.size();
  return header;
}

SafetensorsHeader read_safetensors_header(const File& file) {
  const std::string name = file.path().string();
  const uint64_t size = file.size();
  char start[512] = {};
  const size_t known = std::min<uint64_t>(size, sizeof start);
  file.read_at(0, start, known);
  auto reject = [&](const std::string& why) {
    const std::string_view kind = file_kind({start, known});
    fail(ErrorCode::kInvalid, "{}: not a complete safetensors file: {}{}{}", name, why,
         kind.empty() ? "" : "; it looks like ", kind);
  };
  if (size < kPrefix) reject(fmt::format("{} bytes, the header length alone takes 8", size));
  const uint64_t length = little_endian(start);
  if (length > kMaxSafetensorsHeader)
    reject(fmt::format("header length is {}, at most {} are allowed", length, kMaxSafetensorsHeader));
  if (length > size - kPrefix)
    reject(fmt::format("header length is {}, but the file is short by {} bytes for it", length,
                       length - (size - kPrefix)));
  if (length < 2 || start[kPrefix] != '{')
    reject(fmt::format("its header of {} bytes does not begin with {{, expected a JSON object", length));
  std::string json(length, '\0');
  file.read_at(kPrefix, json.data(), json.size());
  return parse_safetensors_header(json, size - kPrefix - length, name);
}

std::string make_safetensors_header(const std::vector<TensorSpec>& tensors,
                                    const std::map<std::string, std::string>& metadata) {
  auto text_of = [](const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); };
  std::string json = "{";
  if (!metadata.empty()) json += "\"__metadata__\":" + text_of(metadata);
  uint64_t begin = 0;
  for (const TensorSpec& t : tensors) {
    const uint64_t end = checked_add(begin, t.bytes(), "data of a safetensors file");
    std::string shape;
    for (const int64_t d : t.shape) shape += (shape.empty() ? "" : ",") + std::to_string(d);
    json += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        json.size() > 1 ? "," : "", text_of(t.name), dtype_name(t.dtype), shape, begin, end);
    begin = end;
  }
  json += "}";
  json.resize(checked_round_up(json.size(), 8, "header"), ' ');
  if (json.size() > kMaxSafetensorsHeader)
    fail(ErrorCode::kLimit, "the header of {} tensors has {} bytes, at most {} are allowed; use more shards",
         tensors.size(), json.size(), kMaxSafetensorsHeader);
  std::vector<const std::string*> names;
  for (const TensorSpec& t : tensors) names.push_back(&t.name);
  std::sort(names.begin(), names.end(), [](const std::string* a, const std::string* b) { return *a < *b; });
  for (size_t i = 0; i < names.size(); ++i) {
    if (*names[i] == "__metadata__") fail(ErrorCode::kInvalid, "a tensor cannot be named __metadata__");
    if (i > 0 && *names[i - 1] == *names[i])
      fail(ErrorCode::kInvalid, "two tensors would be written under the name {}", in_quotes(*names[i]));
  }
  std::string out(kPrefix, '\0');
  for (size_t i = 0; i < kPrefix; ++i) out[i] = static_cast<char>(json.size() >> (8 * i) & 0xFF);
  return out + json;
}

}  // namespace roundel
