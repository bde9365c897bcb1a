#include "base/json.h"

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/error.h"
#include "base/file.h"

namespace roundel {
namespace {

std::string position(std::string_view text, size_t offset) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  return fmt::format("line {}, column {}", line, column);
}

// Rejects what nlohmann's DOM accepts silently (duplicate keys) or dies of (depth).
template <class Document>
class CheckingSax : public nlohmann::json_sax<Document> {
  using Sax = nlohmann::json_sax<Document>;
  using typename Sax::binary_t;
  using typename Sax::number_float_t;
  using typename Sax::number_integer_t;
  using typename Sax::number_unsigned_t;
  using typename Sax::string_t;

 public:
  CheckingSax(Document& root, std::string_view text, const std::string& name, const JsonLimits& limits)
      : dom_(root, false), text_(text), name_(name), limits_(limits) {}
  bool null() override { return dom_.null(); }
  bool boolean(bool v) override { return dom_.boolean(v); }
  bool number_integer(number_integer_t v) override { return dom_.number_integer(v); }
  bool number_unsigned(number_unsigned_t v) override { return dom_.number_unsigned(v); }
  bool number_float(number_float_t v, const string_t& s) override { return dom_.number_float(v, s); }
  bool string(string_t& v) override { return dom_.string(v); }
  bool binary(binary_t& v) override { return dom_.binary(v); }
  bool start_object(std::size_t n) override {
    enter();
    keys_.emplace_back();
    return dom_.start_object(n);
  }
  bool key(string_t& v) override {
    if (!keys_.back().insert(v).second) fail(ErrorCode::kInvalid, "{}: duplicate key \"{}\"", name_, v);
    if (kOrdered && keys_.back().size() > kMaxOrderedKeys)
      fail(ErrorCode::kLimit, "{}: an object of more than {} keys", name_, kMaxOrderedKeys);
    return dom_.key(v);
  }
  bool end_object() override {
    --depth_;
    keys_.pop_back();
    return dom_.end_object();
  }
  bool start_array(std::size_t n) override {
    enter();
    return dom_.start_array(n);
  }
  bool end_array() override {
    --depth_;
    return dom_.end_array();
  }
  bool parse_error(std::size_t offset, const std::string&, const nlohmann::detail::exception& e) override {
    std::string_view why = e.what();
    if (size_t at = why.find("syntax error"); at != std::string_view::npos) why = why.substr(at);
    fail(ErrorCode::kInvalid, "{}: not valid JSON at {}: {}", name_, position(text_, offset ? offset - 1 : 0),
         why);
  }

 private:
  void enter() {
    if (++depth_ > limits_.max_depth)
      fail(ErrorCode::kInvalid, "{}: nested deeper than {} levels", name_, limits_.max_depth);
  }
  // keys of such objects are searched one by one
  static constexpr bool kOrdered = std::is_same_v<Document, OrderedJson>;
  static constexpr size_t kMaxOrderedKeys = 1024;
  nlohmann::detail::json_sax_dom_parser<Document> dom_;
  std::vector<std::unordered_set<std::string>> keys_;
  std::string_view text_;
  const std::string& name_;
  const JsonLimits& limits_;
  int depth_ = 0;
};

template <class Document>
Document parse_document(std::string_view text, const std::string& name, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    fail(ErrorCode::kLimit, "{}: {} bytes, at most {} are read", name, text.size(), limits.max_bytes);
  if (text.substr(0, 3) == "\xEF\xBB\xBF")
    fail(ErrorCode::kInvalid, "{}: begins with a byte order mark", name);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    fail(ErrorCode::kInvalid, "{}: empty, expected JSON", name);
  if (const size_t at = text.find('\0');
      at != std::string_view::npos)  // the reader would take it for the end
    fail(ErrorCode::kInvalid, "{}: not valid JSON at {}: zero byte", name, position(text, at));
  Document root;
  CheckingSax<Document> sax(root, text, name, limits);
  Document::sax_parse(text.begin(), text.end(), &sax);
  return root;
}

const Json* field_of(const Json& object, const char* field, const std::string& where) {
  if (!object.is_object())
    fail(ErrorCode::kInvalid, "{}: expected an object that holds \"{}\"", where, field);
  auto it = object.find(field);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 80 ? text.substr(0, 77) + "..." : text;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  return parse_document<Json>(text, name, limits);
}

OrderedJson parse_ordered_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  return parse_document<OrderedJson>(text, name, limits);
}

Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_json(read_text_file(path, limits.max_bytes), path.string(), limits);
}

std::optional<int64_t> optional_int(const Json& object, const char* field, const std::string& where,
                                    int64_t min, int64_t max) {
  const Json* v = field_of(object, field, where);
  if (!v) return std::nullopt;
  const bool fits = v->is_number_integer() &&
                    (!v->is_number_unsigned() || v->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  if (!fits || v->get<int64_t>() < min || v->get<int64_t>() > max)
    fail(ErrorCode::kInvalid, "{}: {} is {}, expected an integer from {} to {}", where, field, shown(*v), min,
         max);
  return v->get<int64_t>();
}

int64_t require_int(const Json& object, const char* field, const std::string& where, int64_t min,
                    int64_t max) {
  auto v = optional_int(object, field, where, min, max);
  if (!v) fail(ErrorCode::kInvalid, "{}: {} is missing", where, field);
  return *v;
}

std::optional<double> optional_number(const Json& object, const char* field, const std::string& where,
                                      double min, double max) {
  const Json* v = field_of(object, field, where);
  if (!v) return std::nullopt;
  if (!v->is_number() || !(v->get<double>() >= min && v->get<double>() <= max))
    fail(ErrorCode::kInvalid, "{}: {} is {}, expected a number from {} to {}", where, field, shown(*v), min,
         max);
  return v->get<double>();
}

std::optional<bool> optional_bool(const Json& object, const char* field, const std::string& where) {
  const Json* v = field_of(object, field, where);
  if (!v) return std::nullopt;
  if (!v->is_boolean())
    fail(ErrorCode::kInvalid, "{}: {} is {}, expected true or false", where, field, shown(*v));
  return v->get<bool>();
}

std::optional<std::string> optional_string(const Json& object, const char* field, const std::string& where) {
  const Json* v = field_of(object, field, where);
  if (!v) return std::nullopt;
  if (!v->is_string()) fail(ErrorCode::kInvalid, "{}: {} is {}, expected a string", where, field, shown(*v));
  return v->get<std::string>();
}

std::string require_string(const Json& object, const char* field, const std::string& where) {
  auto v = optional_string(object, field, where);
  if (!v) fail(ErrorCode::kInvalid, "{}: {} is missing", where, field);
  return *v;
}

std::string dump_json(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace roundel
