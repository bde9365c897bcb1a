#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/process.h"

namespace roundel {
namespace {
LogOptions g_options;
spdlog::logger& logger() {
  static std::shared_ptr<spdlog::logger> instance = [] {
    auto made = spdlog::stderr_color_mt("roundel");
    made->set_pattern("%^%l%$: %v");
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}
spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    default:
      return spdlog::level::err;
  }
}
}  // namespace

void configure_log(const LogOptions& options) {
  g_options = options;
  logger().set_level(level_of(options.level));
  if (options.json) logger().set_pattern("%v");
}

void log_line(LogLevel level, const std::string& text) {
  if (g_options.json) {
    static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
    nlohmann::json line{{"level", kNames[static_cast<int>(level)]}, {"message", text}};
    logger().log(level_of(level), "{}", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    logger().log(level_of(level), "{}", escape_control(text));
  }
}

std::string escape_control(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const unsigned char u = static_cast<unsigned char>(c);
    if ((u < 32 && c != '\n') || u == 127) {
      out += fmt::format("\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  return out;
}

std::string format_bytes(uint64_t bytes) {
  const double b = static_cast<double>(bytes);
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (b < 1024.0 * 1024) return fmt::format("{:.1f} KiB", b / 1024);
  if (b < 1024.0 * 1024 * 1024) return fmt::format("{:.1f} MiB", b / (1024.0 * 1024));
  return fmt::format("{:.2f} GiB", b / (1024.0 * 1024 * 1024));
}

Progress::Progress(std::string label, uint64_t total, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      start_(seconds_now()),
      active_(g_options.progress && !g_options.json && stderr_is_terminal()) {}

void Progress::advance(uint64_t by) {
  done_ += by;
  if (!active_ || total_ == 0) return;
  const double now = seconds_now();
  if (now - shown_ < 0.1 && done_ < total_) return;
  shown_ = now;
  const double share = static_cast<double>(done_) / static_cast<double>(total_);
  const double left = share > 0 ? (now - start_) * (1 - share) / share : 0;
  const bool bytes = unit_ == "B";
  const std::string amount = bytes ? format_bytes(done_) + " of " + format_bytes(total_)
                                   : fmt::format("{} of {} {}", done_, total_, unit_);
  fmt::print(stderr, "\r{} {:3.0f}%  {}  {:.0f} s left \033[K", label_, share * 100, amount, left);
  std::fflush(stderr);
}

Progress::~Progress() {
  if (active_ && shown_ > 0) fmt::print(stderr, "\r\033[K");
}

}  // namespace roundel
