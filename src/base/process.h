// This process: memory, interruption, terminal.
#pragma once
#include <cstdint>

namespace roundel {

uint64_t peak_rss_bytes();
// Gives pages that were freed back to the system, where the allocator keeps them between others that are in use.
void release_free_memory();
// Ctrl-C and SIGTERM set a flag; long loops call throw_if_interrupted(), which throws Error(kInterrupted).
void install_interrupt_handler();
bool interrupted();
void throw_if_interrupted();
bool stderr_is_terminal();
double seconds_now();  // monotonic

}  // namespace roundel
