// The JSON of a safetensors header, read event by event: no tree is built, so a header of 100 MB stays affordable.
//
//   SafetensorsSax sax(header, "model.safetensors");
//   Json::sax_parse(text.begin(), text.end(), &sax);      // throws Error at the first fault
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace roundel {

class SafetensorsSax : public nlohmann::json_sax<Json> {
 public:
  // Entries are appended to `header` in the order of the text; each fits its own byte range. Whether the ranges fit
  // together, and whether a tensor is named twice, is for the caller.
  SafetensorsSax(SafetensorsHeader& header, const std::string& file) : header_(header), file_(file) {}

  bool null() override;
  bool boolean(bool value) override;
  bool number_integer(number_integer_t value) override;
  bool number_unsigned(number_unsigned_t value) override;
  bool number_float(number_float_t value, const string_t& text) override;
  bool string(string_t& value) override;
  bool binary(binary_t& value) override;
  bool start_object(std::size_t elements) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(std::size_t elements) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& exception) override;

 private:
  enum class Place { kStart, kTop, kMetadata, kEntry, kEnd };
  enum class Field { kNone, kDType, kShape, kOffsets };

  [[noreturn]] void unexpected(const std::string& value) const;
  void set_dtype(const std::string& name);
  void add_number(uint64_t value);
  void finish_entry();

  SafetensorsHeader& header_;
  const std::string& file_;
  Place place_ = Place::kStart;
  Field field_ = Field::kNone;
  bool in_array_ = false;
  bool has_metadata_ = false;
  std::string key_;           // of the top level
  std::string metadata_key_;  // inside __metadata__
  std::optional<DType> dtype_;
  std::optional<Shape> shape_;
  std::optional<std::vector<uint64_t>> offsets_;
};

}  // namespace roundel
