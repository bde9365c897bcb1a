// What all commands share. Each command is one file cmd_<name>.cpp with one function that declares its flags and says
// what to run; main.cpp holds the list.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "base/json.h"

namespace roundel::cli {

// Declares the command below `app`. The command's callback does the work and throws Error.
using AddCommand = void (*)(CLI::App& app);

void add_import(CLI::App& app);
void add_inspect(CLI::App& app);
void add_plan(CLI::App& app);
void add_quantize(CLI::App& app);
void add_eval(CLI::App& app);
void add_compare(CLI::App& app);
void add_generate(CLI::App& app);
void add_chat(CLI::App& app);
void add_bench(CLI::App& app);
void add_tune(CLI::App& app);
void add_logits(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_template(CLI::App& app);
void add_version(CLI::App& app);

// Where results go: --json FILE|-.
struct JsonOutput {
  std::string to;  // "" none, "-" stdout
  void declare(CLI::App& command);
  bool only_json() const { return to == "-"; }
  void write(const Json& value) const;
};

// stdout, whole or Error(kIo); a reader that went away (| head -1) ends the program quietly.
void write_stdout(const std::string& text);

}  // namespace roundel::cli
