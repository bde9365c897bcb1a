#include "quantize/calibration/range_observer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/thread_pool.h"

namespace roundel {
namespace {

QuantArgs int8_args(const char* observer, const char* kwargs = "", bool symmetric = true) {
  QuantArgs args;
  args.symmetric = symmetric;
  args.observer = observer;
  args.observer_kwargs = kwargs;
  return args;
}

Activations batch(std::vector<float> values) {
  Activations x(1, static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), x.row(0));
  return x;
}

TEST(RangeObserver, AveragesRangesByDefault) {
  ThreadPool pool(1);
  RangeObserver observer(int8_args(""), "test");
  observer.observe(batch({-1, 2}), pool);  // the first batch is taken as it is
  EXPECT_FLOAT_EQ(observer.lo(), -1);
  EXPECT_FLOAT_EQ(observer.hi(), 2);
  observer.observe(batch({-3, 12}), pool);
  EXPECT_FLOAT_EQ(observer.lo(), -1 + 0.01f * -2);
  EXPECT_FLOAT_EQ(observer.hi(), 2 + 0.01f * 10);
  RangeObserver half(int8_args("minmax", R"({"averaging_constant": 0.5})"), "test");
  half.observe(batch({-1, 2}), pool);
  half.observe(batch({-3, 12}), pool);
  EXPECT_FLOAT_EQ(half.hi(), 7);
}

TEST(RangeObserver, KeepsTheExtremesOrTheLast) {
  ThreadPool pool(1);
  RangeObserver extremes(int8_args("static_minmax"), "test"), last(int8_args("memoryless_minmax"), "test");
  for (RangeObserver* o : {&extremes, &last}) {
    o->observe(batch({-5, 2}), pool);
    o->observe(batch({-1, 7}), pool);
    o->observe(batch({1, 2}), pool);
  }
  EXPECT_FLOAT_EQ(extremes.lo(), -5);
  EXPECT_FLOAT_EQ(extremes.hi(), 7);
  EXPECT_FLOAT_EQ(last.lo(), 0);  // a range holds 0
  EXPECT_FLOAT_EQ(last.hi(), 2);
  // Symmetric int8: amax / 127.5, in the dtype asked for.
  EXPECT_FLOAT_EQ(extremes.qparams(DType::kF32).scale, 7 / 127.5f);
  RangeObserver asym(int8_args("static_minmax", "", false), "test");
  asym.observe(batch({-1, 3}), pool);
  EXPECT_FLOAT_EQ(asym.qparams(DType::kF32).scale, 4 / 255.0f);
  EXPECT_EQ(asym.qparams(DType::kF32).zero_point, -64);  // round(-128 + 1 / scale) = round(-64.25)
}

TEST(RangeObserver, ShrinksTheRangeWhereThatHasLessError) {
  ThreadPool pool(2);
  // Four bits, and one value far out: cutting it off costs less than a coarse grid for all others.
  QuantArgs args = int8_args("mse");
  args.num_bits = 4;
  std::vector<float> values(4000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  values[7] = 2;
  RangeObserver mse(args, "test");
  mse.observe(batch(values), pool);
  EXPECT_FLOAT_EQ(mse.hi(), 1.76f);  // what llmcompressor 0.14.0.1 finds (_grid_search_mse with its defaults)
  EXPECT_NEAR(mse.lo(), -0.88f, 1e-4);
  RangeObserver finer(int8_args("mse"), "test");
  finer.observe(batch(values), pool);
  EXPECT_FLOAT_EQ(finer.hi(), 1.96f);
}

TEST(RangeObserver, RefusesWhatItCannotDo) {
  ThreadPool pool(1);
  QuantArgs token = int8_args("");
  token.strategy = Strategy::kToken;
  EXPECT_THROW(RangeObserver(token, "test"), Error);
  EXPECT_THROW(RangeObserver(int8_args("imatrix_mse"), "test"), Error);
  EXPECT_THROW(RangeObserver(int8_args("", R"({"averaging": 1})"), "test"), Error);
  EXPECT_THROW(RangeObserver(int8_args("", R"({"averaging_constant": 2})"), "test"), Error);
  RangeObserver observer(int8_args(""), "layer: input");
  try {
    observer.observe(batch({1, NAN}), pool);
    FAIL() << "NaN was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("layer: input"), std::string::npos);
  }
}

}  // namespace
}  // namespace roundel
