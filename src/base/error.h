// Throwing Error (roundel/error.h) for bad input, files and devices. CHECK is for our own bugs only.
//
//   if (bits < 2) fail(ErrorCode::kInvalid, "num_bits is {}, supported are 2 to 8", bits);
//   try { load(path); } catch (Error& e) { e.add_context("reading " + path); throw; }
//   Problems problems; problems.add("model.layers.0.mlp.up_proj", "128 does not divide 192"); problems.throw_if_any("...");
#pragma once
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "roundel/error.h"

namespace roundel {

template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Collects several problems so that a user sees all of them at once.
struct Problem {
  std::string where;
  std::string message;
};
class Problems {
 public:
  void add(std::string where, std::string message) {
    list_.push_back({std::move(where), std::move(message)});
  }
  bool empty() const { return list_.empty(); }
  const std::vector<Problem>& list() const { return list_; }
  // Throws one Error "headline" followed by a line for each problem.
  void throw_if_any(const std::string& headline, ErrorCode code = ErrorCode::kInvalid) const;

 private:
  std::vector<Problem> list_;
};

[[noreturn]] void check_failed(const char* expression, const char* file, int line);

}  // namespace roundel

#define CHECK(expression) \
  ((expression) ? static_cast<void>(0) : ::roundel::check_failed(#expression, __FILE__, __LINE__))
