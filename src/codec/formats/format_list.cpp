#include "codec/formats/formats.h"

namespace roundel {

const std::vector<const StorageFormat*>& storage_formats() {
  static const std::vector<const StorageFormat*> kFormats = {
      &kPackQuantized,
      &kIntQuantized,
      &kFloatQuantized,
      &kNaiveQuantized,
  };
  return kFormats;
}

const StorageFormat& find_format(std::string_view name, const std::string& where) {
  std::string known;
  for (const StorageFormat* format : storage_formats()) {
    if (format->name == name) return *format;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", format->name);
  }
  fail(ErrorCode::kUnsupported, "{}: storage format \"{}\" is not supported; supported are {}", where, name,
       known);
}

}  // namespace roundel
