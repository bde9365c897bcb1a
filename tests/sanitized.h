// Whether the tests run under a sanitizer, where time, memory and stack are several times what users see. GCC and clang say
// it in different ways, so CMake does.
#pragma once

#ifdef ROUNDEL_TEST_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
