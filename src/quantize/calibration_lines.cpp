#include "quantize/calibration_lines.h"

#include <algorithm>

#include "base/error.h"

namespace roundel {
namespace {

constexpr size_t kPiece = 1 << 20;

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

}  // namespace

JsonLines::JsonLines(const std::filesystem::path& path, uint64_t max_line_bytes)
    : file_(File::open_read(path)), max_line_bytes_(max_line_bytes) {}

void JsonLines::go_to(const Place& place) {
  offset_ = place.offset;
  buffer_.clear();
  at_ = 0;
  number_ = place.number - 1;
}

bool JsonLines::fill() {
  offset_ += buffer_.size();
  at_ = 0;
  const uint64_t size = file_.size();
  buffer_.resize(offset_ >= size ? 0 : std::min<uint64_t>(kPiece, size - offset_));
  if (!buffer_.empty()) file_.read_at(offset_, buffer_.data(), buffer_.size());
  return !buffer_.empty();
}

bool JsonLines::next() {
  line_.clear();
  bool begun = false;
  while (at_ < buffer_.size() || fill()) {
    if (!begun) {
      start_ = offset_ + at_;
      ++number_;
      begun = true;
    }
    const size_t end = buffer_.find('\n', at_);
    const size_t stop = end == std::string::npos ? buffer_.size() : end;
    if (line_.size() + (stop - at_) > max_line_bytes_)
      fail(ErrorCode::kLimit, "{}: line {} is longer than {} bytes; is it one JSON object a line?",
           file_.path().string(), number_, max_line_bytes_);
    line_.append(buffer_, at_, stop - at_);
    at_ = stop;
    if (end == std::string::npos) continue;
    ++at_;
    if (!is_blank(line_)) return true;
    line_.clear();
    begun = false;
  }
  return begun && !is_blank(line_);
}

}  // namespace roundel
