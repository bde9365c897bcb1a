// Logs and progress on stderr. Results go to stdout and never through here.
//
//   log_warn("{}: total_size is {}, the tensors add up to {}", file, declared, actual);
//   Progress progress("quantize", total_bytes, "B");  progress.advance(n);
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

namespace roundel {

enum class LogLevel { kDebug, kInfo, kWarn, kError };
struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  bool json = false;     // one JSON object a line
  bool progress = true;  // still shown on a terminal only
};
void configure_log(const LogOptions& options);
// Control characters of the text are escaped, so that data cannot forge lines.
void log_line(LogLevel level, const std::string& text);

template <class... A>
void log_debug(fmt::format_string<A...> f, A&&... a) {
  log_line(LogLevel::kDebug, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void log_info(fmt::format_string<A...> f, A&&... a) {
  log_line(LogLevel::kInfo, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void log_warn(fmt::format_string<A...> f, A&&... a) {
  log_line(LogLevel::kWarn, fmt::format(f, std::forward<A>(a)...));
}

class Progress {
 public:
  Progress(std::string label, uint64_t total, std::string unit);
  ~Progress();
  void advance(uint64_t by);  // from one thread

 private:
  std::string label_, unit_;
  uint64_t total_, done_ = 0;
  double start_, shown_ = 0;
  bool active_;
};

std::string format_bytes(uint64_t bytes);  // "1.25 GiB"
std::string escape_control(const std::string& text);

}  // namespace roundel
