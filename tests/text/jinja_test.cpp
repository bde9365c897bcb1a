#include "tests/text/template_cases.h"

namespace roundel {
namespace {

TEST(Jinja, SnippetsGiveWhatJinja2Gives) {
  OrderedJson data = read_cases("snippets.json");
  ASSERT_GT(data["cases"].size(), 400u);
  ChatOptions options{.extra = &data["variables"]};
  for (const auto& one : data["cases"]) {
    std::string text = one["template"];
    expect_case(one, rendered(text, Json(data["special"]), data["messages"], options),
                one["name"].get<std::string>() + ": " + text);
  }
}

}  // namespace
}  // namespace roundel
