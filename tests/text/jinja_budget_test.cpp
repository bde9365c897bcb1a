// Reliability C9: a template is a stranger's program. Whatever it does ends soon, in little memory, with an Error.
#include <pthread.h>

#include <functional>

#include "tests/sanitized.h"
#include "tests/text/template_cases.h"

namespace roundel {
namespace {

#ifdef NDEBUG
constexpr size_t kStackBytes = kSanitized ? 2 << 20 : 256 << 10;
#else
constexpr size_t kStackBytes = 2 << 20;  // frames are several times larger
#endif

void on_small_stack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  pthread_t thread;
  auto run = [](void* function) -> void* {
    (*static_cast<const std::function<void()>*>(function))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// `left` count times, `middle`, `right` count times.
std::string nested(const std::string& left, const std::string& middle, const std::string& right, int count) {
  return repeated(left, count) + middle + repeated(right, count);
}

struct Case {
  const char* name;
  std::string text;
  const char* words;  // in the refusal; with "=": the whole output
};

void expect_all(const std::vector<Case>& cases) {
  on_small_stack([&] {
    for (const Case& one : cases) {
      ChatOptions options;
      if (kSanitized)
        options.budget.max_seconds = 2;  // so that most meet the other limits first, as all do without
      std::string found = quick(one.text, options), words = one.words;
      if (words.starts_with('=')) {
        EXPECT_EQ(found, words.substr(1)) << one.name;
      } else {
        EXPECT_TRUE(found.starts_with("refused: t.jinja: line ")) << one.name << ": " << found.substr(0, 200);
        const bool too_slow = kSanitized && found.find("takes longer than") != std::string::npos;
        EXPECT_TRUE(too_slow || found.find(words) != std::string::npos)
            << one.name << ": " << found.substr(0, 200);
      }
    }
  });
}

TEST(JinjaBudget, MacrosThatCallThemselves) {
  const char* deep = "deeper than 100 levels";
  expect_all({
      {"direct", "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", deep},
      {"by default", "{% macro f(x=f()) %}{% endmacro %}{{ f() }}", deep},
      {"in arguments", "{% macro f(x) %}{{ [f({'a': f(x)})] }}{% endmacro %}{{ f(1) }}", deep},
      {"in blocks",
       "{% macro f(x) %}{% if true %}{% for i in [1] %}{% set y %}{{ (1 + (f(x)|upper|trim))|string ~ 'x' "
       "}}{% endset %}"
       "{% endfor %}{% endif %}{% endmacro %}{{ f(1) }}",
       deep},
      {"as caller",
       "{% macro g() %}{{ caller() }}{% endmacro %}{% macro f(x) %}{% call g() %}{{ f(x) }}{% endcall %}{% "
       "endmacro %}"
       "{{ f(1) }}",
       deep},
      {"two", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", deep},
      {"twenty deep is fine",
       "{% macro f(n) %}{% if n %}{{ n }},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(20) }}",
       "=20,19,18,17,16,15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,"},
  });
}

TEST(JinjaBudget, DeepSource) {
  const char* deep = "deeper than 100 levels";
  expect_all({
      {"90 parentheses", "{{ " + nested("(", "1", ")", 90) + " }}", "=1"},
      {"150 parentheses", "{{ " + nested("(", "1", ")", 150) + " }}", deep},
      {"parentheses without end", "{{ " + repeated("(", 500000), deep},
      {"lists", "{{ " + nested("[", "", "]", 150) + " }}", deep},
      {"dicts", "{{ " + nested("{1: ", "1", "}", 5000) + " }}", deep},
      {"subscripts", "{{ " + nested("messages[", "0", "]", 5000) + " }}", deep},
      {"calls", "{{ " + nested("f(", "", ")", 5000) + " }}", deep},
      {"filters in arguments", "{{ 1" + nested("|default(1", "", ")", 5000) + " }}", deep},
      {"signs", "{{ " + repeated("-", 5000) + "1 }}", deep},
      {"not", "{{ " + repeated("not ", 5000) + "1 }}", deep},
      {"if", nested("{% if 1 %}", "x", "{% endif %}", 5000), deep},
      {"for", nested("{% for i in [1] %}", "x", "{% endfor %}", 90), "=x"},
      {"targets", "{% set " + nested("(", "a", ")", 5000) + " = 1 %}", deep},
  });
}

TEST(JinjaBudget, LongChainsAreNotDeep) {
  expect_all({
      {"sums", "{{ " + repeated("1 + ", 20000) + "1 }}", "=20001"},
      {"and", "{{ " + repeated("1 and ", 20000) + "2 }}", "=2"},
      {"conditions", "{{ " + repeated("1 if 0 else ", 20000) + "2 }}", "=2"},
      {"filters", "{{ 'a'" + repeated("|trim", 20000) + " }}", "=a"},
      {"elif", "{% if 0 %}" + repeated("{% elif 0 %}", 20000) + "{% else %}x{% endif %}", "=x"},
      {"attributes", "{{ messages" + repeated(".x", 20000) + " }}", "no attribute 'x'"},
  });
}

TEST(JinjaBudget, Steps) {
  const char* steps = "more than 1000000 steps";
  expect_all({
      {"loops", "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}done",
       steps},
      {"range", "{{ range(1000000000)|length }}", "more than 100000 numbers"},
      {"loop of 10^9",
       "{% for i in range(1000000000) %}{% for j in range(1000000000) %}{% endfor %}{% endfor %}done",
       "more than 100000 numbers"},
      {"list", "{{ [1] * 9223372036854775807 }}", steps},
      {"characters", "{% for i in range(1000) %}{{ ('x' * 100000)|list|length }}{% endfor %}", steps},
      {"shared lists",
       "{% set ns = namespace(s=[]) %}{% for i in range(90) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}"
       "{{ ns.s|tojson|length }}",
       steps},
      {"shared lists, compared",
       "{% set ns = namespace(s=[], t=[]) %}{% for i in range(90) %}{% set ns.s = [ns.s, ns.s] %}"
       "{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}",
       steps},
      {"shared tuples as keys",
       "{% set ns = namespace(s=(), t=()) %}{% for i in range(90) %}{% set ns.s = (ns.s, ns.s) %}"
       "{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ {ns.s: 1, ns.t: 2} }}",
       steps},
      {"map of maps", "{{ 'a'|map(" + repeated("'map', ", 1000) + "'upper')|list }}", "levels"},
  });
}

TEST(JinjaBudget, TextAndMemory) {
  const char* text = "a text of more than 4194304 bytes";
  std::string double_it = "{% set ns = namespace(s='x') %}{% for i in range(33) %}";
  expect_all({
      {"doubling", double_it + "{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}", text},
      {"joining", double_it + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}", text},
      {"replacing", double_it + "{% set ns.s = ns.s.replace('x', 'xx') %}{% endfor %}{{ ns.s }}", text},
      {"capturing", double_it + "{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}{% endfor %}{{ ns.s }}", text},
      {"formatting", double_it + "{% set ns.s = '%s%s' % (ns.s, ns.s) %}{% endfor %}{{ ns.s }}", text},
      {"output", "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}", text},
      {"repeating", "{{ 'ab' * 9223372036854775807 }}", text},
      {"padding", "{{ 'a'.ljust(9999999999) }}", text},
      {"indenting", "{{ 'a\nb'|indent(999999999999) }}", text},
      {"indenting JSON", "{{ [[1]]|tojson(indent=99999999) }}", text},
      {"a width", "{{ '%999999999d' % 1 }}", "a width above 1000"},
      {"many large texts",
       "{% set ns = namespace(l=[], s='x' * 4000000) %}{% for i in range(1000) %}{% set ns.l = ns.l + [ns.s "
       "~ i] %}"
       "{% endfor %}",
       "bytes of values"},
  });
}

TEST(JinjaBudget, DeepValues) {
  const char* deep = "nests values deeper than 100 levels";
  std::string loop = "{% set ns = namespace(s=[]) %}{% for i in range(99999) %}";
  expect_all({
      {"lists", loop + "{% set ns.s = [ns.s] %}{% endfor %}", deep},
      {"dicts", loop + "{% set ns.s = {'a': ns.s} %}{% endfor %}", deep},
      {"methods", loop + "{% set ns.s = {'a': ns.s}.get %}{% endfor %}", deep},
      {"loops", loop + "{% for j in [ns.s] %}{% set ns.s = loop %}{% endfor %}{% endfor %}", deep},
      {"a namespace in itself", "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}",
       "deeper than 100 levels"},
      {"a loop in itself", "{% for i in [1, 2] %}{{ loop.changed(loop) }}{% endfor %}", "=TrueFalse"},
      {"90 levels",
       "{% set ns = namespace(s=[]) %}{% for i in range(90) %}{% set ns.s = [ns.s] %}{% endfor %}"
       "{{ ns.s|tojson|length }}{{ ns.s|string|length }}{{ ns.s == [ns.s] }}{{ ([ns.s, ns.s]|sort)|length }}",
       "=182182False2"},
  });
}

TEST(JinjaBudget, TimeEndsWhatStepsDoNot) {
  ChatOptions options;
  options.budget.max_steps = INT64_MAX;
  options.budget.max_seconds = 0.05;
  std::string loops = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}";
  std::string found = quick(loops, options);
  EXPECT_NE(found.find("longer than 0.05 seconds"), std::string::npos) << found;
  std::string search =
      "{% set a = 'a' * 4000000 %}{% set b = 'a' * 2000000 ~ 'b' %}{% for i in range(100000) %}{{ a.find(b) "
      "}}"
      "{{ a.rfind('b' ~ b) }}{{ b in a }}{% endfor %}";
  found = quick(search, options);
  EXPECT_NE(found.find("longer than 0.05 seconds"), std::string::npos) << found;
}

TEST(JinjaBudget, LimitsOfACall) {
  ChatOptions options;
  options.budget.max_output = 10;
  EXPECT_EQ(quick("{{ '0123456789' }}", options), "0123456789");
  EXPECT_NE(quick("01234{{ '567890' }}", options).find("more than 10 bytes"), std::string::npos);
  options = {};
  options.budget.max_steps = 5000;
  EXPECT_EQ(quick("{% for i in range(100) %}{% endfor %}x", options), "x");
  EXPECT_NE(quick("{% for i in range(5000) %}{% endfor %}x", options).find("more than 5000 steps"),
            std::string::npos);
}

TEST(JinjaBudget, Integers) {
  const char* wide = "does not fit 64 bits";
  expect_all({
      {"sum", "{{ 9223372036854775807 + 1 }}", wide},
      {"difference", "{{ -9223372036854775807 - 2 }}", wide},
      {"product", "{{ 4294967296 * 4294967296 }}", wide},
      {"power", "{{ 2 ** 9999999999 }}", wide},
      {"literal", "{{ 99999999999999999999 }}", wide},
      {"sign", "{{ -(-9223372036854775807 - 1) }}", wide},
      {"quotient", "{{ (-9223372036854775807 - 1) // -1 }}", wide},
      {"rest", "{{ (-9223372036854775807 - 1) % -1 }}", "=0"},
      {"amount", "{{ (-9223372036854775807 - 1)|abs }}", wide},
      {"text", "{{ '9223372036854775808'|int }}", wide},
      {"smallest", "{{ '-9223372036854775808'|int }}", "=-9223372036854775808"},
      {"of a float", "{{ 1e30|int }}", "does not fit an integer of 64 bits"},
      {"slices",
       "{{ 'abc'[::-9223372036854775807 - 1] }}{{ [1, 2][9223372036854775807:-9223372036854775807:-1] }}",
       "=c[2, 1]"},
      {"range", "{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807)|list }}",
       "=[-9223372036854775807, 0]"},
  });
}

TEST(JinjaBudget, NothingButData) {
  const char* refused = "is refused: names that begin with '_' are not data";
  expect_all({
      {"class", "{{ ''.__class__.__mro__[1].__subclasses__() }}", refused},
      {"item", "{{ messages['__class__'] }}", refused},
      {"attr", "{{ messages|attr('__class__') }}", refused},
      {"map", "{{ messages|map(attribute='__class__')|list }}", refused},
      {"private", "{{ messages[0]._secret }}", refused},
      {"self", "{{ self._TemplateReference__context }}", "'self' is undefined"},
      {"include", "{% include 'config.json' %}", "the statement 'include' is not allowed"},
      {"import", "{% import 'config.json' as c %}", "the statement 'import' is not allowed"},
      {"from", "{% from 'config.json' import c %}", "the statement 'from' is not allowed"},
      {"extends", "{% extends 'config.json' %}", "the statement 'extends' is not allowed"},
      {"append", "{% set x = messages.append(1) %}", "would change a list"},
      {"update", "{% set x = messages[0].update({}) %}", "would change a dict"},
      {"names without value", "[{{ nothing_here }}{{ messages[0].nothing }}]", "=[]"},
  });
}

TEST(JinjaBudget, RefusesBadBytes) {
  EXPECT_NE(quick("a\xFF").find("not valid UTF-8"), std::string::npos);
  EXPECT_NE(quick(std::string(2 << 20, 'x')).find("at most 1048576"), std::string::npos);
  EXPECT_EQ(quick(std::string("a\0b", 3)), std::string("a\0b", 3));
}

}  // namespace
}  // namespace roundel
