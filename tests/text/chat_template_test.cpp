#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/text/template_cases.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

using Files = std::vector<std::pair<std::string, std::string>>;

// A model folder with the given files.
class Folder {
 public:
  explicit Folder(const Files& files) {
    static int count = 0;
    path_ = fs::path(testing::TempDir()) /
            ("roundel_chat_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    fs::create_directories(path_);
    for (const auto& [name, text] : files) {
      fs::create_directories((path_ / name).parent_path());
      std::ofstream(path_ / name) << text;
    }
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }
  // What the folder's template gives for one message "hi", or its refusal.
  std::string render(const ChatOptions& options = {}) const {
    try {
      return ChatTemplate::load(path_).render(OrderedJson::parse(R"([{"role": "user", "content": "hi"}])"),
                                              options);
    } catch (const Error& e) {
      code = e.code();
      return std::string("refused: ") + e.what();
    }
  }
  mutable ErrorCode code = ErrorCode::kUsage;

 private:
  fs::path path_;
};

TEST(ChatTemplate, ModelTemplatesGiveWhatTransformersGives) {
  OrderedJson data = read_cases("models.json");
  size_t compared = 0;
  for (const auto& [file, results] : data["files"].items()) {
    std::string text = read_text_file(template_data(file), 1 << 20);
    ASSERT_EQ(results.size(), data["chats"].size());
    for (size_t i = 0; i < results.size(); ++i) {
      const auto& chat = data["chats"][i];
      ChatOptions options{.add_generation_prompt = chat["add_generation_prompt"], .extra = &chat["extra"]};
      expect_case(results[i], rendered(text, Json(data["special"]), chat["messages"], options),
                  file + ": " + chat["name"].get<std::string>());
      compared += results[i].contains("expected");
    }
  }
  EXPECT_GT(compared, 150u);
}

TEST(ChatTemplate, LoadTakesTheStringOfTheConfig) {
  Folder folder(Files{{"tokenizer_config.json",
                       R"({"chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}",
                   "bos_token": "<b>", "eos_token": {"content": "<e>", "lstrip": false}})"}});
  EXPECT_EQ(folder.render(), "<b>hi<e>");
}

TEST(ChatTemplate, LoadTakesTokensThatTheConfigLacksFromTheMap) {
  Folder folder(
      {{"tokenizer_config.json", R"({"chat_template": "{{ bos_token }}{{ eos_token }}{{ image_token }}",
                   "bos_token": "<b>", "eos_token": null, "extra_special_tokens": {"image_token": "<i>"},
                   "add_bos_token": true})"},
       {"special_tokens_map.json", R"({"bos_token": "<other>", "eos_token": {"content": "<e>"}})"}});
  EXPECT_EQ(folder.render(), "<b><e><i>");
}

TEST(ChatTemplate, LoadPrefersTheFileOverTheConfig) {
  Folder folder(Files{{"tokenizer_config.json", R"({"chat_template": "config", "bos_token": "<b>"})"},
                      {"chat_template.jinja", "file {{ bos_token }}\n"}});
  EXPECT_EQ(folder.render(), "file <b>");
}

TEST(ChatTemplate, LoadTakesDefaultOfAListAndToolUseForTools) {
  Folder folder(Files{{"tokenizer_config.json",
                       R"({"chat_template": [{"name": "tool_use", "template": "T{{ tools|length }}"},
                   {"name": "default", "template": "D"}, {"name": "rag", "template": "R"}]})"}});
  EXPECT_EQ(folder.render(), "D");
  OrderedJson extra = OrderedJson::parse(R"({"tools": [{}, {}]})");
  EXPECT_EQ(folder.render({.extra = &extra}), "T2");
  OrderedJson none = OrderedJson::parse(R"({"tools": null})");
  EXPECT_EQ(folder.render({.extra = &none}), "D");
}

TEST(ChatTemplate, LoadReadsToolUseBesideTheFile) {
  Folder folder(Files{{"chat_template.jinja", "D"}, {"chat_templates/tool_use.jinja", "T"}});
  OrderedJson extra = OrderedJson::parse(R"({"tools": []})");
  EXPECT_EQ(folder.render(), "D");
  EXPECT_EQ(folder.render({.extra = &extra}), "T");
}

TEST(ChatTemplate, LoadNamesBothPlacesWhenThereIsNone) {
  for (const char* config : {R"({})", R"({"chat_template": null})"}) {
    Folder folder(Files{{"tokenizer_config.json", config}});
    std::string message = folder.render();
    EXPECT_EQ(folder.code, ErrorCode::kNotFound);
    EXPECT_NE(message.find("chat_template.jinja"), message.npos) << message;
    EXPECT_NE(message.find("tokenizer_config.json"), message.npos) << message;
  }
  EXPECT_EQ(Folder(Files{}).render().substr(0, 9), "refused: ");
}

TEST(ChatTemplate, LoadRefusesBadConfigs) {
  for (const char* config :
       {R"({"chat_template": 5})", R"({"chat_template": ["x"]})",
        R"({"chat_template": [{"name": "default"}]})",
        R"({"chat_template": [{"name": "rag", "template": "R"}, {"name": "x", "template": "X"}]})", R"([])",
        R"({"chat_template": "{{"})", R"({"chat_template": "x")"}) {
    Folder folder(Files{{"tokenizer_config.json", config}});
    EXPECT_EQ(folder.render().substr(0, 9), "refused: ") << config;
  }
}

TEST(ChatTemplate, ErrorsNameFileAndLine) {
  Folder folder(Files{{"chat_template.jinja", "a\n{% if true %}\n{{ messages[0].x.y }}{% endif %}"}});
  EXPECT_EQ(folder.render(), "refused: chat_template.jinja: line 3: 'dict object' has no attribute 'x'");
  Folder syntax(Files{{"chat_template.jinja", "a\n\n{% if %}"}});
  EXPECT_EQ(syntax.render(),
            "refused: chat_template.jinja: line 3: unexpected '%}', expected 'an expression'");
}

TEST(ChatTemplate, RefusalOfTheTemplateIsInvalidInputWithItsWords) {  // reliability F18
  const char* templates[] = {
      "{{ raise_exception('only odd conversations here') }}",
      ("{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
       "{{ raise_exception('only odd conversations here') }}{% endif %}{% endfor %}"),
      "{% if messages[0].role == 'system' %}{{ raise_exception('only odd conversations here') }}{% endif %}"};
  OrderedJson messages =
      OrderedJson::parse(R"([{"role": "system", "content": "a"}, {"role": "user", "content": "b"}])");
  for (const char* text : templates) {
    try {
      ChatTemplate::parse(text, "t", Json::object()).render(messages);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalid);
      EXPECT_NE(std::string(e.what()).find("only odd conversations here"), std::string::npos) << e.what();
    }
  }
}

TEST(ChatTemplate, ExtraVariablesDoNotReplaceTheConversation) {  // reliability C10
  OrderedJson extra = OrderedJson::parse(
      R"({"messages": [], "add_generation_prompt": false, "bos_token": "X", "tokenize": true, "mine": 5})");
  EXPECT_EQ(quick("{{ messages|length }}{{ add_generation_prompt }}{{ bos_token }}{{ tokenize }}{{ mine }}",
                  {.extra = &extra}),
            "1True<s>True5");
  OrderedJson list = OrderedJson::array();
  EXPECT_EQ(quick("x", {.extra = &list}).substr(0, 9), "refused: ");
}

TEST(ChatTemplate, KeysOfMessagesKeepTheirOrder) {
  OrderedJson messages = parse_ordered_json(R"([{"z": 1, "role": "user", "a": {"y": 1, "b": 2}}])", "m");
  EXPECT_EQ(rendered("{{ messages[0]|tojson }}", Json::object(), messages, {}),
            R"({"z": 1, "role": "user", "a": {"y": 1, "b": 2}})");
}

TEST(ChatTemplate, RefusesMessagesThatAreNoText) {
  OrderedJson messages = OrderedJson::array({{{"role", "user"}, {"content", "\xFF"}}});
  EXPECT_EQ(rendered("x", Json::object(), messages, {}).substr(0, 9), "refused: ");
  OrderedJson number = OrderedJson::parse(R"([{"role": "user", "content": 18446744073709551615}])");
  EXPECT_EQ(rendered("x", Json::object(), number, {}).substr(0, 9), "refused: ");
  OrderedJson deep = 1;
  for (int i = 0; i < 200; ++i) deep = OrderedJson::array({deep});
  EXPECT_EQ(rendered("x", Json::object(), deep, {}).substr(0, 9), "refused: ");
}

TEST(ChatTemplate, StrftimeNowIsLocalTime) {
  std::string text = quick("{{ strftime_now('%Y-%m-%d %H:%M') }}");
  time_t now = time(nullptr);
  bool same = false;
  for (time_t at : {now, now - 60}) {  // the minute may have changed
    tm local = {};
    localtime_r(&at, &local);
    char buffer[64];
    strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M", &local);
    same = same || text == buffer;
  }
  EXPECT_TRUE(same) << text;
}

TEST(ChatTemplate, ThreadsCanRenderAtOnce) {
  ChatTemplate chat = ChatTemplate::parse(
      "{% for m in messages %}{{ m.role ~ ': ' ~ m.content }}{% endfor %}{{ 'constant'|upper }}", "t",
      Json::object());
  OrderedJson messages = OrderedJson::parse(R"([{"role": "user", "content": "hi"}])");
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (size_t i = 0; i < good.size(); ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 200; ++round) good[i] += chat.render(messages) == "user: hiCONSTANT";
    });
  for (std::thread& thread : threads) thread.join();
  for (int count : good) EXPECT_EQ(count, 200);
}

}  // namespace
}  // namespace roundel
