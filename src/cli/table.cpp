#include "cli/table.h"

#include <algorithm>

namespace roundel::cli {

std::string Table::text() const {
  std::vector<size_t> width;
  std::vector<bool> numeric(rows_[0].size(), true);
  for (size_t r = 0; r < rows_.size(); ++r) {
    width.resize(std::max(width.size(), rows_[r].size()), 0);
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      const std::string& cell = rows_[r][c];
      width[c] = std::max(width[c], cell.size());
      if (r > 0 && !cell.empty() && cell != "-" && (cell[0] < '0' || cell[0] > '9')) numeric[c] = false;
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string pad(width[c] - row[c].size(), ' ');
      line += (c ? "  " : "") + (numeric[c] ? pad + row[c] : row[c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace roundel::cli
