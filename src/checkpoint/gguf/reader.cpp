#include "checkpoint/gguf/reader.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "checkpoint/file_kind.h"
#include "checkpoint/gguf/cursor.h"
#include "checkpoint/quoted.h"

namespace roundel {
namespace {

constexpr uint64_t kMaxKeys = 1u << 16, kMaxTensors = 1u << 16;
constexpr uint64_t kMaxKeyBytes = 65535, kMaxTensorNameBytes = 64;  // of the GGUF specification
constexpr uint32_t kMaxDimensions = 4;
constexpr int kMaxArrayDepth = 4;
constexpr uint64_t kMaxAlignment = 1u << 20;
static_assert(std::endian::native == std::endian::little, "GGUF numbers are read as they lie in memory");

std::string what_it_is(std::string_view head) {
  if (const std::string_view kind = file_kind(head); !kind.empty()) return std::string(kind);
  if (head.starts_with("FUGG")) return "a GGUF file for big-endian machines";
  for (const char* old : {"lmgg", "fmgg", "tjgg", "algg"})
    if (head.starts_with(old)) return "a GGML file from before GGUF (convert the model again)";
  if (head.size() > 8 && head[8] == '{') return "a safetensors file, which needs no import";
  return "another kind of file";
}

class Parser {
 public:
  explicit Parser(const ByteSource& bytes) : bytes_(bytes), in_(bytes, kMaxGgufHeader), file_(bytes.name()) {}

  GgufFile parse() {
    read_magic();
    const auto tensors = in_.number<uint64_t>("the tensor count");
    const auto keys = in_.number<uint64_t>("the metadata count");
    check_count(tensors, kMaxTensors, 8 + 4 + 8 + 4 + 8, "tensors");  // bytes that each needs at the least
    check_count(keys, kMaxKeys, 8 + 1 + 4 + 1, "metadata keys");
    for (uint64_t i = 0; i < keys; ++i) read_key(i);
    read_alignment();
    for (uint64_t i = 0; i < tensors; ++i) read_tensor(i);
    file_.data_start = checked_round_up(in_.position(), file_.alignment, "start of the tensor data");
    place_tensors();
    return std::move(file_);
  }

 private:
  const std::string& name() const { return bytes_.name(); }

  void read_magic() {
    std::string head(std::min<uint64_t>(64, bytes_.size()), '\0');
    bytes_.read(0, head.data(), head.size());
    if (!head.starts_with("GGUF")) {
      if (std::string_view("GGUF").starts_with(head))
        fail(ErrorCode::kInvalid, "{}: {} bytes, too short for a GGUF file", name(), head.size());
      fail(ErrorCode::kInvalid, "{}: not a GGUF file (it does not begin with \"GGUF\") but {}", name(),
           what_it_is(head));
    }
    in_.number<uint32_t>("the magic number");
    file_.version = in_.number<uint32_t>("the version");
    if (file_.version == 2 || file_.version == 3) return;
    if (file_.version != 0 && (file_.version & 0xffff) == 0)
      fail(ErrorCode::kUnsupported,
           "{}: a big-endian GGUF file; convert the model for little-endian machines", name());
    fail(ErrorCode::kUnsupported,
         "{}: GGUF version {}, versions 2 and 3 are read; convert the model again with a current "
         "converter",
         name(), file_.version);
  }

  void check_count(uint64_t count, uint64_t max, uint64_t least_bytes, const char* what) const {
    if (count > in_.remaining() / least_bytes)
      fail(ErrorCode::kInvalid,
           "{}: {} {} are declared, but only {} bytes follow; it is truncated or damaged", name(), count,
           what, in_.remaining());
    if (count > max) fail(ErrorCode::kLimit, "{}: {} {}, at most {} are read", name(), count, what, max);
  }

  GgufValueType value_type(const std::string& what) {
    const auto id = in_.number<uint32_t>(what);
    if (id >= kGgufValueTypes)
      fail(ErrorCode::kInvalid, "{}: {} has value type {}, known are 0 to {}", name(), what, id,
           kGgufValueTypes - 1);
    return static_cast<GgufValueType>(id);
  }

  void read_key(uint64_t i) {
    const std::string key = in_.string(kMaxKeyBytes, fmt::format("metadata key {}", i));
    if (key.empty()) fail(ErrorCode::kInvalid, "{}: metadata key {} is empty", name(), i);
    const std::string what = "metadata " + shortened(key);
    const GgufValueType type = value_type(what);
    if (!file_.metadata.add(key, read_value(type, what)))
      fail(ErrorCode::kInvalid, "{}: duplicate metadata key {}", name(), shortened(key));
  }

  GgufValue read_value(GgufValueType type, const std::string& what) {
    switch (type) {
      case GgufValueType::kU8:
        return uint64_t{in_.number<uint8_t>(what)};
      case GgufValueType::kI8:
        return int64_t{in_.number<int8_t>(what)};
      case GgufValueType::kU16:
        return uint64_t{in_.number<uint16_t>(what)};
      case GgufValueType::kI16:
        return int64_t{in_.number<int16_t>(what)};
      case GgufValueType::kU32:
        return uint64_t{in_.number<uint32_t>(what)};
      case GgufValueType::kI32:
        return int64_t{in_.number<int32_t>(what)};
      case GgufValueType::kU64:
        return in_.number<uint64_t>(what);
      case GgufValueType::kI64:
        return in_.number<int64_t>(what);
      case GgufValueType::kF32:
        return static_cast<double>(in_.number<float>(what));
      case GgufValueType::kF64:
        return in_.number<double>(what);
      case GgufValueType::kString:
        return in_.string(kMaxGgufHeader, what);
      case GgufValueType::kArray:
        return read_array(what, 1);
      case GgufValueType::kBool:
        break;
    }
    const auto flag = in_.number<uint8_t>(what);
    if (flag > 1)
      fail(ErrorCode::kInvalid, "{}: {} is a bool of value {}, expected 0 or 1", name(), what, flag);
    return flag == 1;
  }

  GgufArray read_array(const std::string& what, int depth) {
    if (depth > kMaxArrayDepth)
      fail(ErrorCode::kLimit, "{}: {} nests arrays deeper than {} levels", name(), what, kMaxArrayDepth);
    GgufArray array;
    array.type = value_type(what);
    array.count = in_.number<uint64_t>(what);
    const uint64_t element = gguf_number_bytes(array.type);
    const uint64_t least = array.type == GgufValueType::kString  ? 8
                           : array.type == GgufValueType::kArray ? 12
                                                                 : element;
    in_.need(checked_mul(array.count, least, "array"), what);
    if (array.type == GgufValueType::kArray) {
      for (uint64_t i = 0; i < array.count; ++i) read_array(what, depth + 1);
    } else if (array.type == GgufValueType::kString) {
      array.ends.reserve(array.count);
      for (uint64_t i = 0; i < array.count; ++i) {
        const auto length = in_.number<uint64_t>(what);
        in_.need(length, what);
        const size_t at = array.text.size();
        array.text.resize(at + length);
        in_.read(array.text.data() + at, length, what);
        array.ends.push_back(array.text.size());
      }
    } else {
      array.numbers.resize(array.count * element);
      in_.read(array.numbers.data(), array.numbers.size(), what);
    }
    return array;
  }

  void read_alignment() {
    const auto alignment = file_.metadata.optional_int("general.alignment", 1, kMaxAlignment);
    if (!alignment) return;
    file_.alignment = static_cast<uint64_t>(*alignment);
    if (!std::has_single_bit(file_.alignment))
      fail(ErrorCode::kInvalid, "{}: general.alignment is {}, expected a power of two", name(),
           file_.alignment);
  }

  void read_tensor(uint64_t i) {
    GgufTensor tensor;
    tensor.name = in_.string(kMaxTensorNameBytes, fmt::format("the name of tensor {}", i));
    const std::string what = "tensor " + shortened(tensor.name);
    if (!file_.index.emplace(tensor.name, i).second)
      fail(ErrorCode::kInvalid, "{}: duplicate {}", name(), what);
    const auto dimensions = in_.number<uint32_t>(what);
    if (dimensions < 1 || dimensions > kMaxDimensions)
      fail(ErrorCode::kInvalid, "{}: {} has {} dimensions, expected 1 to {}", name(), what, dimensions,
           kMaxDimensions);
    tensor.elements = 1;
    for (uint32_t d = 0; d < dimensions; ++d) {
      const auto n = in_.number<uint64_t>(what);
      if (n < 1 || n > static_cast<uint64_t>(INT64_MAX))
        fail(ErrorCode::kInvalid, "{}: {} has a dimension of {}, expected 1 or more", name(), what, n);
      tensor.elements = checked_mul(tensor.elements, n, what.c_str());
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(n));
    }
    const auto type = in_.number<uint32_t>(what);
    tensor.type = find_ggml_type(type);
    if (!tensor.type)
      fail(ErrorCode::kInvalid, "{}: {} has type {}, which GGUF does not define", name(), what, type);
    if (!tensor.type->dequantize)
      fail(ErrorCode::kUnsupported, "{}: {} has type {}; imported are {}", name(), what, tensor.type->name,
           importable_ggml_types());
    if (tensor.shape.back() % tensor.type->block != 0)
      fail(ErrorCode::kInvalid, "{}: {} has rows of {} elements, blocks of {} have {}", name(), what,
           tensor.shape.back(), tensor.type->name, tensor.type->block);
    tensor.bytes = checked_mul(tensor.elements / tensor.type->block, tensor.type->block_bytes, what.c_str());
    tensor.begin = in_.number<uint64_t>(what);  // within the data; place_tensors() makes it absolute
    file_.tensors.push_back(std::move(tensor));
  }

  void place_tensors() {
    uint64_t missing = 0;
    std::string first_missing;
    for (GgufTensor& t : file_.tensors) {
      if (t.begin % file_.alignment != 0)
        fail(ErrorCode::kInvalid, "{}: tensor {} begins at offset {}, not a multiple of the alignment {}",
             name(), shortened(t.name), t.begin, file_.alignment);
      t.begin = checked_add(file_.data_start, t.begin, t.name.c_str());
      const uint64_t end = checked_add(t.begin, t.bytes, t.name.c_str());
      if (end > bytes_.size() && end - bytes_.size() > missing) {
        missing = end - bytes_.size();
        first_missing = t.name;
      }
    }
    if (missing > 0)
      fail(ErrorCode::kInvalid,
           "{}: the file has {} bytes, the data of tensor {} ends at {}: {} bytes are missing; it is "
           "truncated, fetch it again",
           name(), bytes_.size(), shortened(first_missing), bytes_.size() + missing, missing);
    std::vector<size_t> order(file_.tensors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return file_.tensors[a].begin < file_.tensors[b].begin; });
    for (size_t i = 1; i < order.size(); ++i) {
      const GgufTensor& a = file_.tensors[order[i - 1]];
      const GgufTensor& b = file_.tensors[order[i]];
      if (a.begin + a.bytes > b.begin)
        fail(ErrorCode::kInvalid, "{}: the data of tensors {} and {} overlap (from byte {})", name(),
             shortened(a.name), shortened(b.name), b.begin);
    }
  }

  const ByteSource& bytes_;
  GgufCursor in_;
  GgufFile file_;
};

}  // namespace

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto it = index.find(name);
  return it == index.end() ? nullptr : &tensors[it->second];
}

GgufFile read_gguf(const ByteSource& bytes) {
  return Parser(bytes).parse();
}

}  // namespace roundel
