// This process: memory, interruption, terminal.
#pragma once
#include <cstdint>

namespace roundel {

uint64_t peak_rss_bytes();
// Ctrl-C and SIGTERM set a flag; long loops call throw_if_interrupted(), which throws Error(kInterrupted).
void install_interrupt_handler();
void set_interrupted(bool on);  // the same flag, by a program
bool interrupted();
void throw_if_interrupted();
bool stderr_is_terminal();
double seconds_now();  // monotonic

}  // namespace roundel
