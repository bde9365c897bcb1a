#include "cli/calibration_flags.h"

#include <limits>

#include "base/error.h"

namespace roundel::cli {
namespace {

QuantArgs kv_cache_args() {
  return {.type = NumberType::kFloat, .strategy = Strategy::kTensor};
}

}  // namespace

void CalibrationFlags::declare(CLI::App& command) {
  command
      .add_option(
          "--algorithm", algorithm,
          "rtn (round to nearest), gptq, awq, or best (roundel's own choice for few bits); all but rtn need "
          "--calib")
      ->check(CLI::IsMember({"rtn", "gptq", "awq", "best"}))
      ->type_name("NAME")
      ->capture_default_str();
  command
      .add_option(
          "--smooth", smooth,
          "SmoothQuant first, of this strength (0 to 1; 0.5 to 0.8 is usual), or auto: the best for each "
          "activation is searched; needs --calib")
      ->check(CLI::Range(0.0, 1.0) | CLI::IsMember({"auto"}))
      ->type_name("ALPHA");
  command.add_option("--kv-cache", kv_cache, "Scales for a key/value cache in this type: fp8; needs --calib")
      ->check(CLI::IsMember({"fp8"}))
      ->type_name("TYPE");
  command
      .add_option(
          "--calib", calib,
          "Calibration data: plain text, or JSONL with `text` or `messages` (by its name: .jsonl, .ndjson, "
          ".json)")
      ->type_name("FILE");
  command.add_option("--samples", samples, "Samples taken of it, at most")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--seq-len", seq_len, "Tokens of a sample (at most, in JSONL)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--calib-seed", seed,
                  "Draw the samples from the whole file by this seed (default: in order)")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()))
      ->type_name("S");
  command
      .add_option("--sequential", sequential,
                  "on: a layer is calibrated with the outputs of the quantized layers before it; off: of the "
                  "dense ones")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("WHAT")
      ->capture_default_str();
  command
      .add_option("--max-memory", max_memory_gb,
                  "Memory for calibration in GB; what is more goes to a temporary file (default: half of "
                  "what is free, "
                  "without a limit for the rest)")
      ->check(CLI::Range(0.001, 1e6))
      ->type_name("GB");
}

void CalibrationFlags::check(const CLI::App& command) const {
  if (!calib.empty()) return;
  for (const char* option : {"--samples", "--seq-len", "--calib-seed", "--sequential", "--max-memory"})
    if (command.count(option) > 0)
      fail(ErrorCode::kUsage, "{} is about calibration data, and --calib names none", option);
}

Recipe CalibrationFlags::recipe(const QuantFlags& quant) const {
  Recipe recipe{.name = "command line", .modifiers = {}};
  if (!quant.rotate.empty()) {
    Modifier m{.kind = "SpinQuantModifier", .where = "--rotate"};
    m.rotate = quant.rotation();
    recipe.modifiers.push_back(std::move(m));
  }
  if (!smooth.empty()) {
    Modifier m{.kind = "SmoothQuantModifier", .where = "--smooth"};
    SmoothQuantStep step{.strength = std::nullopt};
    double strength = 0;
    if (smooth != "auto" && CLI::detail::lexical_cast(smooth, strength)) step.strength = strength;
    m.smooth = step;
    recipe.modifiers.push_back(std::move(m));
  }
  if (algorithm == "awq") {
    Modifier m{.kind = "AWQModifier", .where = "--algorithm awq"};
    m.smooth = AwqStep{};
    recipe.modifiers.push_back(std::move(m));
  }
  Modifier m{.kind = "QuantizationModifier", .where = "--algorithm " + algorithm};
  m.request = quant.request("--scheme", true);
  if (!kv_cache.empty()) m.request->kv_cache = kv_cache_args();
  m.quantize = RtnStep{};
  if (algorithm == "gptq") {
    m.quantize = GptqStep{.actorder = std::nullopt};
    for (SchemeGroup& group : m.request->groups)
      if (group.scheme.weights) group.scheme.weights->actorder = ActOrder::kStatic;
  } else if (algorithm == "best") {
    m.quantize = BestStep{};
  }
  recipe.modifiers.push_back(std::move(m));
  check_modifiers(recipe);
  return recipe;
}

Recipe recipe_file(const std::string& path, const QuantFlags& quant, const CLI::App& command) {
  if (quant.any()) fail(ErrorCode::kUsage, "--recipe and --scheme/--rule exclude each other");
  for (const char* option : {"--ignore", "--group-size", "--no-default-ignore", "--rotate"})
    if (command.count(option) > 0)
      fail(ErrorCode::kUsage, "{} has no effect on a recipe: change {} instead", option, path);
  Recipe recipe = read_recipe(path);
  for (Modifier& m : recipe.modifiers)
    if (m.request && command.count("--on-indivisible") > 0) m.request->on_indivisible = quant.indivisible();
  return recipe;
}

CalibrationSource CalibrationFlags::source() const {
  CalibrationSource source{.file = calib, .samples = samples, .seq_len = seq_len, .seed = std::nullopt};
  if (seed) source.seed = static_cast<uint64_t>(*seed);
  return source;
}

}  // namespace roundel::cli
