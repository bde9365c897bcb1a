#include "cli/command.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace roundel::cli {

void JsonOutput::declare(CLI::App& command) {
  command
      .add_option("--json", to,
                  "Write the result as JSON to a file; - for standard output and nothing else there")
      ->type_name("FILE|-");
}

void JsonOutput::write(const Json& value) const {
  if (to == "-") {
    write_stdout(dump_json(value));
  } else if (!to.empty()) {
    write_text_file(to, dump_json(value));
  }
}

void write_stdout(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) std::_Exit(0);
  fail(ErrorCode::kIo, "standard output: cannot write: {}", std::strerror(errno));
}

}  // namespace roundel::cli
