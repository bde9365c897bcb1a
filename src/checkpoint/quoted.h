// Text out of a stranger's file, made fit for a message: in quotes, shortened, control characters escaped.
//
//   fail(ErrorCode::kInvalid, "{}: tensor {} is missing", file, in_quotes(name));
#pragma once
#include <string>
#include <string_view>

namespace roundel {

std::string in_quotes(std::string_view text);
// The same without the quotes.
std::string shortened(std::string_view text);

}  // namespace roundel
