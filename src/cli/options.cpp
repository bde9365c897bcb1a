#include "cli/options.h"

#include "base/error.h"

namespace roundel::cli {

void QuantFlags::declare(CLI::App& command, const char* scheme_flag) {
  command
      .add_option(scheme_flag, text.scheme,
                  "Scheme of all linear layers: W8A8, W4A16, W4A16_ASYM, W8A16, W4A8, W4AFP8, FP8_DYNAMIC, "
                  "FP8_BLOCK, FP8 ...; "
                  "suffixes change it: W4A16:g64:asym, FP8_DYNAMIC:mse, W8A8:tensor:act-static")
      ->type_name("NAME");
  command
      .add_option("--group-size", text.group_size,
                  "Columns that share a scale, in schemes with groups (default 128; -1: one scale a row)")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 20))
      ->type_name("N");
  command
      .add_option("--rule", text.rules,
                  "Another scheme for some modules; TARGET is a module name, a class or re:PATTERN; "
                  "SCHEME may be `none`. Repeatable; name > pattern > class, the later rule wins")
      ->type_name("TARGET=SCHEME")
      ->allow_extra_args(false);
  command
      .add_option("--ignore", text.ignore, "Modules that stay as they are (lm_head by default). Repeatable")
      ->type_name("TARGET")
      ->allow_extra_args(false);
  command.add_flag("--no-default-ignore", text.no_default_ignore, "Do not leave lm_head out by default");
  command
      .add_option(
          "--rotate", rotate,
          "Rotate the model first: R1 the residual stream (unties lm_head), R2 the value heads, or R1,R2; "
          "spreads outliers over all channels, which helps int8, static activations most")
      ->type_name("R");
  command
      .add_option("--on-indivisible", text.on_indivisible,
                  "When a group size does not divide a layer's columns: error, skip, pad or channel")
      ->check(CLI::IsMember({"error", "skip", "pad", "channel"}))
      ->type_name("WHAT")
      ->capture_default_str();
}

PlanRequest QuantFlags::request(const char* scheme_flag, bool can_calibrate) const {
  return parse_plan_text(text, {scheme_flag, "--rule", "--group-size", "--recipe"}, can_calibrate);
}

void LoadFlags::declare(CLI::App& command) {
  command.add_option("--device", device, "Where to run: cpu, or a CUDA GPU: cuda, cuda:1")
      ->type_name("DEVICE")
      ->capture_default_str();
  command.add_option("--threads", threads, "Threads (default: one for each usable core)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command
      .add_option("--cache", cache,
                  "Folder for packed weights: the first load of a model writes them there, later ones map "
                  "them; on a GPU "
                  "for what `roundel tune` measured")
      ->envname("ROUNDEL_CACHE")
      ->type_name("DIR");
  command
      .add_option("--kv-cache-dtype", kv_cache_dtype,
                  "Numbers in the key/value cache: auto and bfloat16 keep BF16, float32 twice as much; a "
                  "checkpoint that quantizes its cache keeps codes")
      ->check(CLI::IsMember({"auto", "bfloat16", "float32"}))
      ->type_name("TYPE")
      ->capture_default_str();
  declare_int8_activations(command, int8_activations);
  quantize.declare(command, "--quantize");
}

void declare_int8_activations(CLI::App& command, bool& wanted) {
  command.add_flag(
      "--int8-activations", wanted,
      "Round the activations of W4A16 and W8A16 modules to int8, one scale a token: faster prompts, "
      "at the accuracy of W4A8 and W8A8");
}

void declare_sampling(CLI::App& c, SamplingChoice& choice) {
  c.add_option("--temperature", choice.temperature,
               "0: greedy. Default: the model's generation_config, else 0")
      ->check(CLI::Range(0.0, 100.0))
      ->type_name("T");
  c.add_option("--top-p", choice.top_p, "Smallest set of tokens with this probability")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("P");
  c.add_option("--top-k", choice.top_k, "The K likeliest tokens; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->type_name("K");
  c.add_option("--min-p", choice.min_p, "Tokens of at least this share of the likeliest's probability")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("P");
  c.add_option("--seed", choice.seed, "Seed of the sampling")->type_name("S")->capture_default_str();
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
  options.cache = cache;
  options.int8_activations = int8_activations;
  if (kv_cache_dtype == "float32") options.kv_type = KvType::kF32;
  options.rotation = quantize.rotation();
  if (quantize.any())
    options.quantize = quantize.request("--quantize");
  else if (quantize.text.group_size != 0 || !quantize.text.ignore.empty())
    fail(ErrorCode::kUsage, "--group-size and --ignore need --quantize or --rule");
  return options;
}

void declare_path(CLI::App& command, std::string& path, const char* name, const char* help) {
  command.add_option(name, path, help)->required();
}

}  // namespace roundel::cli
