// Error: what roundel throws for bad input, files and devices. The message names the file, tensor, field or option, the
// value, the expectation and the next step; several problems of one input come in one message, a line each.
//
//   try {
//     model = roundel::api::load(folder);
//   } catch (const roundel::Error& e) {
//     if (e.code() == roundel::ErrorCode::kNotFound) return download(folder);
//     std::cerr << e.what() << "\n";
//   }
#pragma once
#include <exception>
#include <string>

namespace roundel {

enum class ErrorCode {
  kUsage,        // options that are missing or contradict each other
  kInvalid,      // a damaged file, files or options that do not fit together, a value outside its range
  kUnsupported,  // understood, and roundel cannot do it (yet)
  kNotFound,     // no such file or folder
  kIo,           // reading or writing failed
  kNoSpace,      // the disk is full, or would be
  kLimit,        // larger, deeper or slower than roundel accepts from a file
  kInterrupted,  // by a signal or by interrupt()
  kDevice        // the device failed
};

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message);
  // Puts "context: " in front of the message. Called while the exception travels up.
  void add_context(const std::string& context);
  ErrorCode code() const { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
};

}  // namespace roundel
