// Problems of a file that may have as many as it has tensors: the first ones are listed, the rest is counted.
//
//   CappedProblems problems;
//   problems.add("model.norm.weight", "is missing");
//   problems.throw_if_any("model.safetensors.index.json: does not fit the shards");
#pragma once
#include <string>

#include "base/error.h"

namespace roundel {

class CappedProblems {
 public:
  void add(std::string where, std::string message) {
    if (list_.list().size() < kMax) {
      list_.add(std::move(where), std::move(message));
    } else {
      ++more_;
    }
  }
  void throw_if_any(const std::string& headline) {
    if (more_) list_.add("", fmt::format("... and {} more", more_));
    list_.throw_if_any(headline);
  }

 private:
  static constexpr size_t kMax = 100;
  Problems list_;
  size_t more_ = 0;
};

}  // namespace roundel
