#include "scheme/presets.h"

#include <gtest/gtest.h>

#include <set>

#include "scheme/storage_format.h"
#include "tests/scheme/scheme_test_util.h"

namespace roundel {
namespace {

TEST(Presets, EqualThoseOfTheOriginal) {
  const Json originals = fixture("presets.json");
  std::set<std::string> names;
  for (const Preset& p : presets()) {
    names.insert(p.name);
    ASSERT_TRUE(originals.contains(p.name)) << p.name;
    const Scheme original = parse_scheme(
        [&] {
          Json scheme = originals[p.name]["scheme"];
          scheme["format"] = nullptr;
          return scheme;
        }(),
        p.name);
    EXPECT_EQ(p.scheme.weights, original.weights) << p.name;
    EXPECT_EQ(p.scheme.input, original.input) << p.name;
    EXPECT_EQ(p.scheme.output, original.output) << p.name;
    EXPECT_EQ(p.needs_calibration, originals[p.name]["needs_calibration"].get<bool>()) << p.name;
    EXPECT_EQ(infer_stored_format(p.scheme, "Linear"), originals[p.name]["format"]) << p.name;
  }
  for (const auto& item : originals.items()) EXPECT_TRUE(names.contains(item.key())) << item.key();
}

TEST(Presets, AreFoundInAnyCase) {
  EXPECT_EQ(find_preset("w4a16", "--scheme").name, "W4A16");
  EXPECT_EQ(find_preset("Fp8_Dynamic", "--scheme").name, "FP8_DYNAMIC");
  EXPECT_EQ(find_preset("int8", "--scheme").scheme, find_preset("W8A8", "--scheme").scheme);
  EXPECT_TRUE(is_preset("nvfp4"));
  EXPECT_FALSE(is_preset("W9A99"));
}

TEST(Presets, UnknownNamesGetTheNearestOne) {
  const std::string error = error_of([] { find_preset("W3B8", "recipe.yaml: scheme"); });
  EXPECT_TRUE(contains(error, "recipe.yaml: scheme: unknown scheme \"W3B8\"; did you mean \"W3A8\"?"))
      << error;
  EXPECT_TRUE(contains(error, "FP8_BLOCK")) << error;
}

TEST(Presets, UnsupportedOnesSayWhy) {
  for (const char* name :
       {"NVFP4", "nvfp4a16", "MXFP4", "MXFP4A16", "MXFP4XFP8", "MXFP6A16", "MXFP6A8", "MXFP8", "MXFP8A16"}) {
    const std::string error = error_of([&] { find_preset(name, "--scheme"); });
    EXPECT_TRUE(contains(error, "not supported yet")) << name << ": " << error;
  }
}

}  // namespace
}  // namespace roundel
