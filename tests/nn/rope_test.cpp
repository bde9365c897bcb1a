#include "nn/rope.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace roundel {
namespace {

RopeSettings settings_of(const Json& c) {
  const Json& s = c["settings"];
  RopeSettings r;
  r.type = c["type"];
  r.theta = c["theta"];
  r.rotated = c["rotated"];
  r.max_position = c["max_position"];
  r.factor = s.value("factor", 1.0);
  r.low_freq_factor = s.value("low_freq_factor", 1.0);
  r.high_freq_factor = s.value("high_freq_factor", 4.0);
  r.original_max_position = s.value("original_max_position_embeddings", int64_t{0});
  r.short_factor = s.value("short_factor", std::vector<double>{});
  r.long_factor = s.value("long_factor", std::vector<double>{});
  r.attention_factor = s.value("attention_factor", 0.0);
  r.beta_fast = s.value("beta_fast", 32.0);
  r.beta_slow = s.value("beta_slow", 1.0);
  return r;
}

// Frequencies may differ in the last bits of a float; an angle is position times frequency, at most `position`.
double tolerance(int64_t position) {
  return 1e-6 + static_cast<double>(position) * 0x1p-21;
}

TEST(Rope, AnglesAreThoseOfTransformers) {
  const Json cases = read_json_file(ROUNDEL_TEST_DATA "/rope/rope.json");
  ASSERT_GE(cases.size(), 10u);
  for (const Json& c : cases) {
    const Rope rope(settings_of(c));
    ASSERT_EQ(2 * rope.half(), c["rotated"].get<int64_t>());
    for (const Json& want : c["angles"]) {
      const int64_t start = want["start"], tokens = want["tokens"];
      SCOPED_TRACE(c["type"].get<std::string>() + " at " + std::to_string(start));
      const RopeAngles got = rope.angles(start, tokens, start + tokens);
      ASSERT_EQ(got.half, rope.half());
      ASSERT_EQ(got.cos.size(), want["cos"].size());
      for (size_t i = 0; i < got.cos.size(); ++i) {
        EXPECT_NEAR(got.cos[i], want["cos"][i].get<double>(), tolerance(start + tokens)) << i;
        EXPECT_NEAR(got.sin[i], want["sin"][i].get<double>(), tolerance(start + tokens)) << i;
      }
    }
  }
}

TEST(Rope, AnglesDoNotDependOnHowPositionsAreCut) {
  const Rope rope({.theta = 10000.0, .rotated = 32, .max_position = 256});
  const RopeAngles all = rope.angles(0, 20, 20), tail = rope.angles(13, 7, 20);
  EXPECT_TRUE(std::equal(tail.cos.begin(), tail.cos.end(), all.cos.begin() + 13 * all.half));
  EXPECT_TRUE(std::equal(tail.sin.begin(), tail.sin.end(), all.sin.begin() + 13 * all.half));
}

TEST(Rope, FrequenciesFollowTheLengthOfTheWholePrompt) {
  RopeSettings s{
      .type = "longrope", .factor = 4, .original_max_position = 16, .rotated = 4, .max_position = 64};
  s.short_factor = {1, 1};
  s.long_factor = {2, 8};
  const Rope rope(s);
  EXPECT_TRUE(rope.same_frequencies(1, 16));
  EXPECT_FALSE(rope.same_frequencies(16, 17));
  EXPECT_TRUE(rope.same_frequencies(17, 64));
  const RopeAngles first = rope.angles(0, 10, 40), whole = rope.angles(0, 40, 40),
                   alone = rope.angles(0, 10, 10);
  EXPECT_TRUE(std::equal(first.cos.begin(), first.cos.end(), whole.cos.begin()));
  EXPECT_NE(first.cos, alone.cos);
}

// Positions in any order, lengths with the same frequencies and with others, and beyond what is kept.
TEST(RopeTable, GivesTheAnglesOfRope) {
  RopeSettings dynamic{.theta = 10000.0, .rotated = 16, .max_position = 64};
  dynamic.type = "dynamic", dynamic.factor = 2;
  for (const RopeSettings& settings :
       {RopeSettings{.theta = 10000.0, .rotated = 16, .max_position = 64}, dynamic}) {
    const Rope rope(settings);
    RopeTable table(rope);
    for (const auto& [start, tokens, length] : {std::array<int64_t, 3>{5, 3, 40},
                                                {0, 7, 40},
                                                {250, 20, 270},
                                                {6, 2, 300},
                                                {6, 2, 41},
                                                {40000, 3, 40003},
                                                {7, 300, 307}}) {
      const RopeAngles want = rope.angles(start, tokens, length);
      std::vector<float> cos(want.cos.size()), sin(want.sin.size());
      table.copy(start, tokens, length, cos.data(), sin.data());
      EXPECT_EQ(cos, want.cos) << settings.type << ' ' << start << ' ' << length;
      EXPECT_EQ(sin, want.sin);
    }
  }
}

}  // namespace
}  // namespace roundel
