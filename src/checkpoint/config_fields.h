// Fields of config.json that come in several shapes.
//
//   std::vector<int64_t> ids = token_ids(config, "eos_token_id", where);   // 2, [1, 2], null or absent
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace roundel {

// An id, a list of ids, or nothing. -1 stands for nothing in old files.
std::vector<int64_t> token_ids(const Json& object, const char* field, const std::string& where);
// A list of positive finite numbers with exactly `count` members.
std::vector<double> positive_numbers(const Json& object, const char* field, const std::string& where,
                                     size_t count);
// Null when the field is absent or null, else an object. Throws Error otherwise.
const Json* optional_object(const Json& object, const char* field, const std::string& where);

}  // namespace roundel
