// What goes wrong on a GPU: memory that runs out, and errors after which CUDA refuses everything.
#include <cstdlib>

#include "base/error.h"
#include "tests/cuda/gpu.h"

namespace roundel {
namespace {

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(DeviceFault, NoMemoryIsAnErrorWithNumbersAndTheNextRequestWorks) {
  NEEDS_GPU();
  setenv("ROUNDEL_GPU_MEMORY_MIB", "64", 1);
  const std::unique_ptr<Device> small = open_device(0);
  unsetenv("ROUNDEL_GPU_MEMORY_MIB");
  EXPECT_EQ(small->free_memory(), size_t{64} << 20);
  const DeviceBuffer some(*small, size_t{40} << 20, "weights");
  for (int i = 0; i < 100; ++i) {
    const std::string text = error_of([&] { DeviceBuffer(*small, size_t{25} << 20, "key/value cache"); });
    for (const char* part : {"cuda:0", "25.0 MiB of key/value cache", "24 of ", "holds 40 MiB", "use "})
      EXPECT_TRUE(has(text, part)) << text;
  }
  EXPECT_EQ(small->allocated(), size_t{40} << 20);
  const DeviceBuffer fits(*small, size_t{24} << 20, "key/value cache");
  EXPECT_EQ(small->free_memory(), 0u);
}

TEST(DeviceFault, MoreThanTheGpuHasIsAnErrorToo) {
  NEEDS_GPU();
  const size_t before = gpu()->allocated();
  const std::string text = error_of([&] { DeviceBuffer(*gpu(), size_t{1} << 45, "weights"); });
  EXPECT_TRUE(has(text, "has no room for 33554432.0 MiB of weights")) << text;
  EXPECT_EQ(gpu()->allocated(), before);
  const DeviceBuffer works(*gpu(), 1 << 20, "test data");
  gpu()->clear(works.data(), works.size());
  gpu()->synchronize();
}

TEST(DeviceFault, ALimitThatIsNoNumberIsRefused) {
  NEEDS_GPU();
  setenv("ROUNDEL_GPU_MEMORY_MIB", "much", 1);
  const std::string text = error_of([] { open_device(0); });
  unsetenv("ROUNDEL_GPU_MEMORY_MIB");
  EXPECT_TRUE(has(text, "ROUNDEL_GPU_MEMORY_MIB is \"much\"")) << text;
}

TEST(DeviceFault, ACancelledRecordingLeavesTheStreamUsable) {
  NEEDS_GPU();
  gpu()->begin_record();
  gpu()->cancel_record();
  const DeviceBuffer data = to_gpu(std::vector<int>{1, 2, 3});
  EXPECT_EQ(from_gpu<int>(data, 3), (std::vector<int>{1, 2, 3}));
}

// In a process of its own: the error ends its use of the GPU.
void read_where_nothing_is() {
  const std::unique_ptr<Device> device = open_device(0);
  const DeviceBuffer y(*device, 4096, "test data");
  const auto* nowhere = reinterpret_cast<const float*>(uintptr_t{1} << 46);
  device_ops(device->info()).to_bf16(nowhere, 64, 1, 64, y.as<uint16_t>(), 64, device->stream());
  const std::string first = error_of([&] { device->synchronize(); });
  const std::string second = error_of([&] { device->clear(y.data(), 4096); });
  const std::string third = error_of([&] { DeviceBuffer(*device, 4096, "more"); });
  const bool ok = has(first, "illegal memory access") && has(first, "start it again") && second == first &&
                  third == first;
  std::fprintf(stderr, "%s\n%s\n%s\n", first.c_str(), second.c_str(), third.c_str());
  std::exit(ok ? 7 : 8);
}

TEST(DeviceFaultDeathTest, AfterAnIllegalAccessEveryCallReportsIt) {
  if (device_count() == 0) GTEST_SKIP() << "no GPU";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(read_where_nothing_is(), testing::ExitedWithCode(7), "illegal memory access");
}

}  // namespace
}  // namespace roundel
