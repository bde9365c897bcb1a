// The program's version.
#pragma once

namespace roundel {

inline constexpr const char kVersion[] = "0.1.0";

}  // namespace roundel
