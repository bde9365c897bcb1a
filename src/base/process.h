// This process: memory, interruption, terminal.
#pragma once
#include <cstdint>

namespace roundel {

uint64_t peak_rss_bytes();
// Memory of the machine that is free, at most the limit of the control group (what that uses may be files that were read,
// which it gives up). 0: not known.
uint64_t available_memory_bytes();
// Buffers of 256 KiB and more go back to the system when they are freed, so that the peak does not depend on how far one
// thread is ahead of another. Slows down work that allocates such buffers all the time.
void return_freed_buffers();
// The opposite: they are kept for the next one, and release_free_memory() gives them back.
void reuse_freed_buffers();
// Gives pages that were freed back to the system, where the allocator keeps them between others that are in use.
void release_free_memory();
// Ctrl-C and SIGTERM set a flag; long loops call throw_if_interrupted(), which throws Error(kInterrupted).
void install_interrupt_handler();
void set_interrupted(bool on);  // the same flag, by a program
bool interrupted();
void throw_if_interrupted();
bool stderr_is_terminal();
double seconds_now();  // monotonic

}  // namespace roundel
