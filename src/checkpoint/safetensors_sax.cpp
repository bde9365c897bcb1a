#include "checkpoint/safetensors_sax.h"

#include "base/error.h"
#include "checkpoint/quoted.h"

namespace roundel {
namespace {

constexpr size_t kMaxRank = 64;
constexpr std::string_view kMetadataKey = "__metadata__";

std::string supported_dtypes() {
  std::string list;
  for (uint8_t i = 0; i <= static_cast<uint8_t>(DType::kF64); ++i)
    list += (i ? ", " : "") + std::string(dtype_name(static_cast<DType>(i)));
  return list;
}

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

// False when the product does not fit 64 bits.
bool multiply(const Shape& shape, uint64_t element_bytes, uint64_t& bytes) {
  bytes = 1;
  for (const int64_t d : shape)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(d), &bytes)) return false;
  return !__builtin_mul_overflow(bytes, element_bytes, &bytes);
}

}  // namespace

void SafetensorsSax::unexpected(const std::string& value) const {
  std::string where = "the header", expected = "an object";
  if (place_ == Place::kTop && key_ == kMetadataKey) {
    where = key_;
    expected = "an object of strings";
  } else if (place_ == Place::kTop) {
    where = "tensor " + in_quotes(key_);
    expected = "an object with dtype, shape and data_offsets";
  } else if (place_ == Place::kMetadata) {
    where = fmt::format("{}: {}", kMetadataKey, in_quotes(metadata_key_));
    expected = "a string";
  } else if (place_ == Place::kEntry) {
    where = "tensor " + in_quotes(key_) +
            (field_ == Field::kDType     ? ": dtype"
             : field_ == Field::kOffsets ? ": data_offsets"
                                         : ": shape");
    expected = field_ == Field::kDType     ? "a string"
               : field_ == Field::kOffsets ? "two integers, 0 or more"
                                           : "a list of integers, 0 or more";
  }
  fail(ErrorCode::kInvalid, "{}: {} {} {}, expected {}", file_, where, in_array_ ? "holds" : "is", value,
       expected);
}

bool SafetensorsSax::null() {
  unexpected("null");
}
bool SafetensorsSax::boolean(bool value) {
  unexpected(value ? "true" : "false");
}
bool SafetensorsSax::binary(binary_t&) {
  unexpected("binary data");
}
bool SafetensorsSax::number_integer(number_integer_t value) {
  unexpected(std::to_string(value));
}
bool SafetensorsSax::number_float(number_float_t, const string_t& text) {
  unexpected(shortened(text));
}
bool SafetensorsSax::number_unsigned(number_unsigned_t value) {
  if (!in_array_) unexpected(std::to_string(value));
  add_number(value);
  return true;
}

void SafetensorsSax::add_number(uint64_t value) {
  if (field_ == Field::kOffsets) {
    if (offsets_->size() == 2)
      fail(ErrorCode::kInvalid, "{}: tensor {}: data_offsets holds more than two integers", file_,
           in_quotes(key_));
    offsets_->push_back(value);
    return;
  }
  if (value > static_cast<uint64_t>(INT64_MAX))
    fail(ErrorCode::kInvalid, "{}: tensor {}: shape holds {}, which overflows 63 bits", file_,
         in_quotes(key_), value);
  if (shape_->size() == kMaxRank)
    fail(ErrorCode::kInvalid, "{}: tensor {}: shape has more than {} dimensions", file_, in_quotes(key_),
         kMaxRank);
  shape_->push_back(static_cast<int64_t>(value));
}

bool SafetensorsSax::string(string_t& value) {
  if (place_ == Place::kMetadata) {
    if (!header_.metadata.emplace(metadata_key_, value).second)
      fail(ErrorCode::kInvalid, "{}: {}: duplicate key {}", file_, kMetadataKey, in_quotes(metadata_key_));
    return true;
  }
  if (place_ != Place::kEntry || field_ != Field::kDType) unexpected(in_quotes(value));
  set_dtype(value);
  return true;
}

void SafetensorsSax::set_dtype(const std::string& name) {
  dtype_ = dtype_from_name(name);
  if (dtype_) return;
  const std::string tensor = in_quotes(key_);
  for (const std::string_view known :
       {"F4", "F6_E2M3", "F6_E3M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64"})
    if (name == known)
      fail(ErrorCode::kUnsupported, "{}: tensor {}: dtype {} is not supported; supported are {}", file_,
           tensor, name, supported_dtypes());
  if (const auto meant = dtype_from_name(upper(name)))
    fail(ErrorCode::kInvalid, "{}: tensor {}: unknown dtype {}; the format spells it {}", file_, tensor,
         in_quotes(name), dtype_name(*meant));
  fail(ErrorCode::kInvalid, "{}: tensor {}: unknown dtype {}; supported are {}", file_, tensor,
       in_quotes(name), supported_dtypes());
}

bool SafetensorsSax::start_object(std::size_t) {
  switch (place_) {
    case Place::kStart:
      place_ = Place::kTop;
      return true;
    case Place::kTop:
      place_ = key_ == kMetadataKey ? Place::kMetadata : Place::kEntry;
      field_ = Field::kNone;
      dtype_.reset();
      shape_.reset();
      offsets_.reset();
      return true;
    default:
      unexpected("an object");
  }
}

bool SafetensorsSax::key(string_t& name) {
  if (place_ == Place::kTop) {
    key_ = name;
    if (name == kMetadataKey && std::exchange(has_metadata_, true))
      fail(ErrorCode::kInvalid, "{}: duplicate key {}", file_, kMetadataKey);
    return true;
  }
  if (place_ == Place::kMetadata) {
    metadata_key_ = name;
    return true;
  }
  field_ = name == "dtype"          ? Field::kDType
           : name == "shape"        ? Field::kShape
           : name == "data_offsets" ? Field::kOffsets
                                    : Field::kNone;
  if (field_ == Field::kNone)
    fail(ErrorCode::kInvalid, "{}: tensor {}: unknown key {}, expected dtype, shape and data_offsets", file_,
         in_quotes(key_), in_quotes(name));
  if ((field_ == Field::kDType && dtype_) || (field_ == Field::kShape && shape_) ||
      (field_ == Field::kOffsets && offsets_))
    fail(ErrorCode::kInvalid, "{}: tensor {}: duplicate key {}", file_, in_quotes(key_), name);
  return true;
}

bool SafetensorsSax::start_array(std::size_t) {
  if (in_array_ || place_ != Place::kEntry || field_ == Field::kDType) unexpected("a list");
  if (field_ == Field::kShape) shape_.emplace();
  if (field_ == Field::kOffsets) offsets_.emplace();
  in_array_ = true;
  return true;
}

bool SafetensorsSax::end_array() {
  in_array_ = false;
  return true;
}

bool SafetensorsSax::end_object() {
  if (place_ == Place::kTop) {
    place_ = Place::kEnd;
    return true;
  }
  if (place_ == Place::kEntry) finish_entry();
  place_ = Place::kTop;
  return true;
}

void SafetensorsSax::finish_entry() {
  const std::string_view missing = !dtype_ ? "dtype" : !shape_ ? "shape" : !offsets_ ? "data_offsets" : "";
  if (!missing.empty())
    fail(ErrorCode::kInvalid, "{}: tensor {}: {} is missing", file_, in_quotes(key_), missing);
  if (offsets_->size() != 2)
    fail(ErrorCode::kInvalid, "{}: tensor {}: data_offsets holds {} integers, expected 2", file_,
         in_quotes(key_), offsets_->size());
  const uint64_t begin = (*offsets_)[0], end = (*offsets_)[1];
  if (begin > end)
    fail(ErrorCode::kInvalid, "{}: tensor {}: data_offsets [{}, {}] end before they begin", file_,
         in_quotes(key_), begin, end);
  uint64_t bytes = 0;
  if (!multiply(*shape_, dtype_size(*dtype_), bytes))
    fail(ErrorCode::kInvalid, "{}: tensor {}: the size of shape {} overflows 64 bits", file_, in_quotes(key_),
         shape_text(*shape_));
  if (bytes != end - begin)
    fail(ErrorCode::kInvalid, "{}: tensor {}: shape {} of {} is {} bytes, data_offsets [{}, {}] are {}",
         file_, in_quotes(key_), shape_text(*shape_), dtype_name(*dtype_), bytes, begin, end, end - begin);
  header_.tensors.push_back({{key_, *dtype_, std::move(*shape_)}, begin});
}

bool SafetensorsSax::parse_error(std::size_t position, const std::string&,
                                 const nlohmann::detail::exception& exception) {
  std::string_view why = exception.what();
  for (const std::string_view start : {"syntax error", "number overflow"})
    if (const size_t at = why.find(start); at != std::string_view::npos) why = why.substr(at);
  why = why.substr(0, why.find("; last read"));
  fail(ErrorCode::kInvalid, "{}: the header is not valid JSON at its byte {}: {}", file_, position,
       shortened(why));
}

}  // namespace roundel
