#include "cli/options.h"

#include "base/error.h"
#include "scheme/scheme_text.h"

namespace roundel::cli {

void QuantFlags::declare(CLI::App& command, const char* scheme_flag) {
  command
      .add_option(scheme_flag, scheme,
                  "Scheme of all linear layers: W8A8, W4A16, W4A16_ASYM, W8A16, W4A8, W4AFP8, FP8_DYNAMIC, "
                  "FP8_BLOCK ...; "
                  "suffixes change it: W4A16:g64:asym, W8A8:tensor")
      ->type_name("NAME");
  command
      .add_option("--group-size", group_size,
                  "Columns that share a scale, in schemes with groups (default 128; -1: one scale a row)")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 20))
      ->type_name("N");
  command
      .add_option("--rule", rules,
                  "Another scheme for some modules; TARGET is a module name, a class or re:PATTERN; "
                  "SCHEME may be `none`. Repeatable; name > pattern > class, the later rule wins")
      ->type_name("TARGET=SCHEME")
      ->allow_extra_args(false);
  command.add_option("--ignore", ignore, "Modules that stay as they are (lm_head by default). Repeatable")
      ->type_name("TARGET")
      ->allow_extra_args(false);
  command.add_flag("--no-default-ignore", no_default_ignore, "Do not leave lm_head out by default");
  command
      .add_option("--on-indivisible", on_indivisible,
                  "When a group size does not divide a layer's columns: error, skip, pad or channel")
      ->check(CLI::IsMember({"error", "skip", "pad", "channel"}))
      ->type_name("WHAT")
      ->capture_default_str();
}

namespace {

Scheme scheme_for(const std::string& text, int64_t group_size, const std::string& where, bool* grouped) {
  SchemeText parsed = parse_scheme_text(text, where);
  if (parsed.needs_calibration)
    fail(ErrorCode::kUnsupported,
         "{}: {} has static activation scales, which need calibration data; that is not supported yet. "
         "FP8_DYNAMIC "
         "and W8A8 need none",
         where, text);
  auto& w = parsed.scheme.weights;
  if (w && w->strategy == Strategy::kGroup) {
    *grouped = true;
    if (group_size > 0 && !parsed.explicit_group) w->group_size = group_size;
    if (group_size == -1 && !parsed.explicit_group) {
      w->strategy = Strategy::kChannel;
      w->group_size = 0;
    }
  }
  return parsed.scheme;
}

OnIndivisible on_indivisible_of(const std::string& text) {
  if (text == "skip") return OnIndivisible::kSkip;
  if (text == "pad") return OnIndivisible::kPad;
  if (text == "channel") return OnIndivisible::kChannel;
  return OnIndivisible::kError;
}

}  // namespace

PlanRequest QuantFlags::request(const char* scheme_flag) const {
  PlanRequest request;
  bool grouped = false;
  if (!scheme.empty())
    request.groups.push_back({"", {"Linear"}, scheme_for(scheme, group_size, scheme_flag, &grouped)});
  for (const std::string& rule : rules) {
    const size_t equals = rule.rfind('=');  // a pattern may hold one itself
    if (equals == std::string::npos || equals == 0 || equals + 1 == rule.size())
      fail(ErrorCode::kUsage, "--rule \"{}\": expected TARGET=SCHEME, such as 're:.*down_proj=W8A16'", rule);
    const std::string where = "--rule " + rule.substr(0, equals);
    request.groups.push_back(
        {"", {rule.substr(0, equals)}, scheme_for(rule.substr(equals + 1), group_size, where, &grouped)});
  }
  if (request.groups.empty())
    fail(ErrorCode::kUsage, "say what to do: {} NAME, or --rule TARGET=SCHEME", scheme_flag);
  if (group_size != 0 && !grouped)
    fail(ErrorCode::kUsage,
         "--group-size {}: no scheme here has groups ({} has one scale for each row, block or tensor)",
         group_size, scheme.empty() ? rules.front() : scheme);
  request.ignore = ignore;
  if (!no_default_ignore) request.default_ignore = {"lm_head"};
  request.on_indivisible = on_indivisible_of(on_indivisible);
  return request;
}

void LoadFlags::declare(CLI::App& command) {
  command.add_option("--device", device, "Where to run: cpu, or a CUDA GPU: cuda, cuda:1")
      ->type_name("DEVICE")
      ->capture_default_str();
  command.add_option("--threads", threads, "Threads (default: one for each usable core)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  quantize.declare(command, "--quantize");
}

std::optional<int> device_index(const std::string& device) {
  if (device == "cpu") return std::nullopt;
  if (device == "cuda") return 0;
  const std::string digits = device.starts_with("cuda:") ? device.substr(5) : "";
  if (digits.empty() || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string::npos)
    fail(ErrorCode::kUsage, "--device {}: expected cpu, cuda or cuda:N", device);
  int index = 0;
  for (const char c : digits) index = 10 * index + (c - '0');
  return index;
}

LoadOptions LoadFlags::options() const {
  LoadOptions options;
  options.gpu = device_index(device);
  options.threads = threads;
  if (quantize.any())
    options.quantize = quantize.request("--quantize");
  else if (quantize.group_size != 0 || !quantize.ignore.empty())
    fail(ErrorCode::kUsage, "--group-size and --ignore need --quantize or --rule");
  return options;
}

void declare_path(CLI::App& command, std::string& path, const char* name, const char* help) {
  command.add_option(name, path, help)->required();
}

}  // namespace roundel::cli
