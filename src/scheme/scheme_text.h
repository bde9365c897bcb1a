// How a scheme is written on the command line: a preset's name, changed by suffixes.
//
//   parse_scheme_text("W4A16", where)              as compressed-tensors defines it
//   parse_scheme_text("W4A16:g64:asym", where)     groups of 64, with zero points
//   parse_scheme_text("W8A8:tensor", where)        one scale for the weight
//   parse_scheme_text("W8A8:tensor:act-static", where)   and one, measured before, for the activations
//   parse_scheme_text("FP8_BLOCK:64x64", where)    blocks of another shape
//   parse_scheme_text("none", where)               stays as it is
// Suffixes: gN, channel, tensor, RxC (blocks), sym, asym, mse (weights: ranges shrunk to where the error is least), act-sym,
// act-asym (int8 activations), act-static (one scale for the activations, from calibration), weights-only.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "scheme/quant_args.h"

namespace roundel {

struct SchemeText {
  Scheme scheme;
  bool explicit_group = false;     // a suffix named the strategy: --group-size leaves it alone
  bool needs_calibration = false;  // static activations
};

// Throws Error(kInvalid) naming the suffix and listing the known ones, or what find_preset throws.
SchemeText parse_scheme_text(std::string_view text, const std::string& where);

}  // namespace roundel
