// Plain tables for terminals and for pasting into Markdown.
//
//   Table t({"module", "shape"});  t.add({"lm_head", "[512, 128]"});  write_stdout(t.text());
#pragma once
#include <string>
#include <vector>

namespace roundel::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;  // columns aligned, numbers to the right

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace roundel::cli
