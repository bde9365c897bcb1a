// JSON from files that a stranger may have written: size and depth are limited, duplicate keys, a byte order mark,
// invalid UTF-8 and trailing text are errors with line and column.
//
//   Json config = read_json_file(folder / "config.json");
//   int64_t heads = require_int(config, "num_attention_heads", "config.json", 1, 1 << 20);
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace roundel {

using Json = nlohmann::json;                 // objects are sorted by key, as Hugging Face writes them
using OrderedJson = nlohmann::ordered_json;  // keys stay in the order of the text; at most 1024 in one object

struct JsonLimits {
  uint64_t max_bytes = 64ull << 20;
  int max_depth = 64;
};

// `name` is what messages call the text (a file name). Throws Error(kInvalid).
Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});
OrderedJson parse_ordered_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});
Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = {});

// Fields of an object. `where` is the file (or "file: section") for messages. A value of the wrong type or outside
// [min, max] throws Error(kInvalid) naming field, value and rule. null counts as absent.
int64_t require_int(const Json& object, const char* field, const std::string& where, int64_t min,
                    int64_t max);
std::optional<int64_t> optional_int(const Json& object, const char* field, const std::string& where,
                                    int64_t min, int64_t max);
std::optional<double> optional_number(const Json& object, const char* field, const std::string& where,
                                      double min, double max);
std::optional<bool> optional_bool(const Json& object, const char* field, const std::string& where);
std::optional<std::string> optional_string(const Json& object, const char* field, const std::string& where);
std::string require_string(const Json& object, const char* field, const std::string& where);

// The text that goes into files: indent 2, keys sorted, UTF-8 kept (invalid sequences replaced), a final newline.
std::string dump_json(const Json& value);

}  // namespace roundel
