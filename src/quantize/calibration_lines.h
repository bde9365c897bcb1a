// The lines of a JSONL file, one at a time, in order or by number, with a limit on their length.
//
//   JsonLines lines(path, 16 << 20);
//   while (lines.next()) use(lines.number(), lines.text());
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"

namespace roundel {

class JsonLines {
 public:
  JsonLines(const std::filesystem::path& path, uint64_t max_line_bytes);
  // Goes on to the next line that is not blank; false at the end. Error(kLimit) names a line that is too long.
  bool next();
  int64_t number() const { return number_; }  // 1-based, blank lines counted
  const std::string& text() const { return line_; }

  struct Place {
    uint64_t offset = 0;
    int64_t number = 0;
  };
  Place place() const { return {start_, number_}; }  // of the current line
  void go_to(const Place& place);                    // next() reads that line

 private:
  bool fill();  // more bytes into buffer_; false at the end of the file
  File file_;
  uint64_t max_line_bytes_;
  uint64_t start_ = 0;   // where the current line begins
  uint64_t offset_ = 0;  // of buffer_ in the file
  size_t at_ = 0;        // read so far of buffer_
  int64_t number_ = 0;
  std::string buffer_, line_;
};

}  // namespace roundel
