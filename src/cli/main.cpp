// roundel: the command line. Each command lives in cmd_<name>.cpp; here is the list, and the one place where errors
// become messages and exit codes.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/process.h"
#include "cli/command.h"
#include "roundel/version.h"

namespace roundel::cli {
namespace {

constexpr std::array<AddCommand, 14> kCommands = {
    add_import, add_inspect, add_plan, add_quantize, add_eval,     add_compare,  add_generate,
    add_chat,   add_bench,   add_tune, add_logits,   add_tokenize, add_template, add_version};

struct LogFlags {
  bool quiet = false, verbose = false;
  std::string format = "text";
};

void apply(const LogFlags& flags) {
  LogOptions options;
  options.level = flags.quiet ? LogLevel::kError : flags.verbose ? LogLevel::kDebug : LogLevel::kInfo;
  options.json = flags.format == "json";
  options.progress = !flags.quiet;
  configure_log(options);
}

int exit_code(const Error& e) {
  if (e.code() == ErrorCode::kUsage) return 2;
  return e.code() == ErrorCode::kInterrupted ? 130 : 1;
}

int report(const std::string& text, int code) {
  std::fprintf(stderr, "error: %s\n", escape_control(text).c_str());
  return code;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// What CLI11 could not parse, in our words.
int usage_error(const CLI::App& app, const CLI::ParseError& e, int argc, char** argv) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty() && argc > 1 && argv[1][0] != '-') {
    std::vector<std::string> known;
    for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
    return report(fmt::format("unknown command \"{}\"{} (roundel --help lists them)", argv[1],
                              did_you_mean(argv[1], known)),
                  2);
  }
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  std::string text = e.what();
  if (e.get_name() == "ExtrasError") {
    const auto extras = app.remaining(true);
    const std::string& word = extras.empty() ? text : extras.front();
    const bool flag = word.starts_with("-");
    text = fmt::format("unknown {} {}{}", flag ? "flag" : "argument", word,
                       flag ? did_you_mean(word.substr(0, word.find('=')), option_names(command)) : "");
  }
  const std::string prefix = command.get_name().empty() ? "roundel" : "roundel " + command.get_name();
  return report(fmt::format("{} ({} --help shows the usage)", text, prefix), 2);
}

int run(int argc, char** argv) {
  CLI::App app{"roundel: quantizes Hugging Face language models, runs them, and measures what it cost"};
  app.name("roundel");
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", kVersion);
  app.footer(
      "`roundel COMMAND --help` shows a command's flags. Exit codes: 0 done, 1 failure, 2 wrong usage, 130 "
      "interrupted.");
  LogFlags flags;
  app.add_flag("--quiet,-q", flags.quiet, "Errors only, no progress");
  app.add_flag("--verbose,-v", flags.verbose, "More messages");
  app.add_option("--log-format", flags.format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("FORMAT");
  app.parse_complete_callback([&] { apply(flags); });
  for (const AddCommand add : kCommands) add(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::CallForHelp& e) {
    write_stdout(app.help());
    return 0;
  } catch (const CLI::CallForVersion& e) {
    write_stdout(std::string("roundel ") + kVersion + "\n");
    return 0;
  } catch (const CLI::ParseError& e) {
    return usage_error(app, e, argc, argv);
  } catch (const Error& e) {
    return report(e.what(), exit_code(e));
  } catch (const std::bad_alloc&) {
    return report("out of memory", 1);
  } catch (const std::exception& e) {
    return report(e.what(), 1);
  }
}

}  // namespace
}  // namespace roundel::cli

int main(int argc, char** argv) {
  roundel::install_interrupt_handler();
  return roundel::cli::run(argc, argv);
}
