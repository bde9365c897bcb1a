#include "scheme/scheme_text.h"

#include <charconv>

#include "base/error.h"
#include "base/nearest.h"
#include "scheme/presets.h"

namespace roundel {
namespace {

std::optional<int64_t> positive(std::string_view text) {
  int64_t v = 0;
  const auto [p, e] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (e != std::errc() || p != text.data() + text.size() || v <= 0 || v > (1 << 20)) return std::nullopt;
  return v;
}

void set_strategy(QuantArgs& w, Strategy strategy, int64_t group, int64_t rows, int64_t cols) {
  w.strategy = strategy;
  w.group_size = group;
  w.block_rows = rows;
  w.block_cols = cols;
}

// True when the suffix names a strategy.
bool apply_strategy(std::string_view suffix, QuantArgs& w) {
  if (suffix == "channel" || suffix == "tensor") {
    set_strategy(w, suffix == "channel" ? Strategy::kChannel : Strategy::kTensor, 0, 0, 0);
    return true;
  }
  if (suffix.starts_with("g")) {
    if (const auto n = positive(suffix.substr(1))) {
      set_strategy(w, Strategy::kGroup, *n, 0, 0);
      return true;
    }
  }
  const size_t x = suffix.find('x');
  if (x == std::string_view::npos) return false;
  const auto rows = positive(suffix.substr(0, x)), cols = positive(suffix.substr(x + 1));
  if (!rows || !cols) return false;
  set_strategy(w, Strategy::kBlock, 0, *rows, *cols);
  return true;
}

void apply_suffix(std::string_view suffix, SchemeText& out, const std::string& where) {
  if (!out.scheme.weights)
    fail(ErrorCode::kInvalid, "{}: \"{}\" changes weights that stay as they are", where, suffix);
  if (apply_strategy(suffix, *out.scheme.weights)) {
    out.explicit_group = true;
  } else if (suffix == "sym" || suffix == "asym") {
    out.scheme.weights->symmetric = suffix == "sym";
  } else if (suffix == "mse") {
    out.scheme.weights->observer = "memoryless_mse";
  } else if (suffix == "weights-only") {
    out.scheme.input.reset();
    out.needs_calibration = false;
  } else if ((suffix == "act-sym" || suffix == "act-asym") && out.scheme.input) {
    out.scheme.input->symmetric = suffix == "act-sym";
  } else if (suffix == "act-static" && out.scheme.input) {
    QuantArgs& input = *out.scheme.input;
    set_strategy(input, Strategy::kTensor, 0, 0, 0);
    input.dynamic = DynamicMode::kStatic;
    out.needs_calibration = true;
  } else {
    fail(ErrorCode::kInvalid,
         "{}: unknown suffix \"{}\"; known are gN, channel, tensor, RxC, sym, asym, mse, act-sym, act-asym, "
         "act-static, weights-only{}",
         where, suffix,
         did_you_mean(suffix, {"channel", "tensor", "sym", "asym", "mse", "act-sym", "act-asym", "act-static",
                               "weights-only"}));
  }
}

}  // namespace

SchemeText parse_scheme_text(std::string_view text, const std::string& where) {
  SchemeText out;
  size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  if (name != "none") {
    const Preset& preset = find_preset(name, where);
    out.scheme = preset.scheme;
    out.needs_calibration = preset.needs_calibration;
  }
  while (colon != std::string_view::npos) {
    const size_t next = text.find(':', colon + 1);
    apply_suffix(text.substr(colon + 1, next == std::string_view::npos ? next : next - colon - 1), out,
                 where);
    colon = next;
  }
  require_supported(out.scheme, where);
  return out;
}

}  // namespace roundel
