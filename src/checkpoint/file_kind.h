// What a file that should hold weights really is, told from its first bytes.
//
//   file_kind("<!DOCTYPE html>...")   // "an HTML page"
#pragma once
#include <string_view>

namespace roundel {

// "a Git LFS pointer (...)", "a zip archive (...)" and the like; empty when the bytes say nothing.
std::string_view file_kind(std::string_view first_bytes);

}  // namespace roundel
