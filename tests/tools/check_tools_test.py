#!/usr/bin/env python3
"""The checking tools themselves: each must accept a small good tree and name each fault put into it."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TOOLS = ROOT / "tools"

GOOD = {
    "include/roundel/error.h": "// Errors.\n#pragma once\n#include <string>\n",
    "include/roundel/roundel.h": '// The library.\n#pragma once\n#include "roundel/error.h"\n',
    "src/base/error.h": '// Errors.\n#pragma once\n#include "roundel/error.h"\n',
    "src/api/model.cpp": '#include "engine/generate.h"\n#include "roundel/roundel.h"\n',
    "tests/api/library_test.cpp": '#include <string>\n\n#include "roundel/roundel.h"\n',
    "src/base/error.cpp": '#include "base/error.h"\n\nint one() { return 1; }\n',
    "src/tensor/tensor.h": '// Tensors.\n#pragma once\n#include "base/error.h"\n',
    "src/scheme/plan.h": '// Plans.\n#pragma once\n#include "base/error.h"\n',
    "src/kernels/api/linear.h": "// Views.\n#pragma once\n#include <cstdint>\n",
    "src/kernels/reference/linear.cpp": '#include <vector>\n\n#include "base/error.h"\n#include "kernels/api/linear.h"\n',
    "src/kernels/cpu/avx2/linear.h": '// AVX2.\n#pragma once\n#include "kernels/api/linear.h"\n',
    "src/kernels/cpu/avx2/linear.cpp": '#include <immintrin.h>\n#include <stdint.h>\n\n#include "kernels/cpu/avx2/linear.h"\n',
    "src/kernels/cpu/common/tile.h": '// A tile.\n#pragma once\n#include "kernels/api/linear.h"\n',
    "src/kernels/cpu/avx2/isa.h": '// AVX2.\n#pragma once\n#include "kernels/cpu/common/tile.h"\n',
    "src/kernels/cpu/driver/linear.cpp": '#include <vector>\n\n#include "base/error.h"\n#include "kernels/cpu/common/tile.h"\n',
    "src/kernels/list.h": '// Lists.\n#pragma once\n#include "kernels/api/linear.h"\n',
    "src/kernels/list.cpp": '#include "kernels/list.h"\n\n#include "kernels/cpu/avx2/linear.h"\n',
    "src/linear/linear.h": '// Linear.\n#pragma once\n#include "kernels/list.h"\n#include "scheme/plan.h"\n',
    "src/model/model.h": '// Model.\n#pragma once\n#include "linear/linear.h"\n',
    "src/engine/generate.h": '// Generate.\n#pragma once\n#include "model/model.h"\n',
    "src/eval/perplexity.h": '// Perplexity.\n#pragma once\n#include "model/model.h"\n',
    "src/cli/main.cpp": '// #include "kernels/list.h"\n#include "engine/generate.h"\n',
    "tests/kernels/linear_test.cpp": '#include "kernels/cpu/avx2/linear.h"\n',
}


def lines(n, text="x();"):
    return "".join("  %s\n" % text for _ in range(n))


class ToolTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        for name, text in GOOD.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_tool(self, tool, *options):
        done = subprocess.run([sys.executable, "-B", TOOLS / tool, "--root", self.root, *options],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def accepts(self, tool, *options):
        code, text = self.run_tool(tool, *options)
        self.assertEqual(code, 0, text)

    def refuses(self, tool, *words, options=()):
        code, text = self.run_tool(tool, *options)
        self.assertEqual(code, 1, text)
        for word in words:
            self.assertIn(word, text)


class Layers(ToolTest):
    def refuses_include(self, path, name, *words):
        self.write(path, '// A header.\n#pragma once\n#include %s\n' % (name if name[0] == "<" else '"%s"' % name))
        self.refuses("check_layers", path + ":3", *words)

    def test_accepts_the_good_tree(self):
        self.accepts("check_layers")

    def test_accepts_the_project(self):
        self.root = ROOT
        self.accepts("check_layers")

    def test_refuses_upward(self):
        self.refuses_include("src/base/bad.h", "tensor/tensor.h", "floor 0 includes floor 1")

    def test_refuses_sideways(self):
        self.refuses_include("src/tensor/bad.h", "scheme/plan.h", "sideways")

    def test_refuses_sideways_on_the_top_floors(self):
        self.refuses_include("src/eval/bad.h", "engine/generate.h", "sideways")

    def test_refuses_a_kernel_outside_kernels(self):
        self.refuses_include("src/linear/bad.h", "kernels/cpu/avx2/linear.h", "ask kernels/list.h")

    def test_refuses_a_kernel_in_tests_of_others(self):
        self.refuses_include("tests/linear/bad.h", "kernels/cpu/avx2/linear.h", "include a kernel")

    def test_refuses_the_list_from_a_reference_kernel(self):
        self.refuses_include("src/kernels/reference/bad.h", "kernels/list.h", "may include only")

    def test_refuses_base_from_an_instruction_set(self):
        self.refuses_include("src/kernels/cpu/avx2/bad.h", "base/error.h", "may include only")

    def test_refuses_cpp_headers_in_an_instruction_set(self):
        self.refuses_include("src/kernels/cpu/avx2/bad.h", "<vector>", "<vector>")

    def test_refuses_cpp_headers_in_what_instruction_sets_share(self):
        self.refuses_include("src/kernels/cpu/common/bad.h", "<algorithm>", "<algorithm>")

    def test_refuses_an_instruction_set_in_code_that_runs_anywhere(self):
        self.refuses_include("src/kernels/cpu/driver/bad.h", "kernels/cpu/avx2/isa.h", "may include only")

    def test_refuses_one_instruction_set_in_another(self):
        self.refuses_include("src/kernels/cpu/avx512/bad.h", "kernels/cpu/avx2/linear.h", "cpu/avx512 includes cpu/avx2")

    def test_refuses_base_from_the_kernel_interface(self):
        self.refuses_include("src/kernels/api/bad.h", "base/error.h", "may include only")

    def test_refuses_a_front_end_that_reaches_around(self):
        self.write("src/nn/rope.h", "// Rotary embedding.\n#pragma once\n")
        self.refuses_include("src/cli/bad.h", "nn/rope.h", "reach around")

    def test_refuses_a_codec_in_the_library(self):
        self.write("src/codec/format.h", "// Formats.\n#pragma once\n")
        self.refuses_include("src/api/bad.h", "codec/format.h", "reach around")

    def test_refuses_internals_in_a_public_header(self):
        self.refuses_include("include/roundel/bad.h", "base/error.h", "may include only")

    def test_refuses_internals_in_tests_of_the_library(self):
        self.refuses_include("tests/api/bad.h", "base/error.h", "public headers")

    def test_refuses_a_folder_without_a_floor(self):
        self.write("src/extra/new.h", "// New.\n#pragma once\n")
        self.refuses("check_layers", "src/extra/new.h", "FLOORS")

    def test_refuses_a_file_that_is_not_there(self):
        self.refuses_include("src/base/bad.h", "base/nowhere.h", "no file of the project")

    def test_refuses_a_cycle(self):
        self.write("src/base/a.h", '// A.\n#pragma once\n#include "base/b.h"\n')
        self.write("src/base/b.h", '// B.\n#pragma once\n#include "base/c.h"\n')
        self.write("src/base/c.h", '// C.\n#pragma once\n#include "base/a.h"\n')
        self.refuses("check_layers", "cycle: src/base/a.h -> src/base/b.h -> src/base/c.h -> src/base/a.h")

    def test_sees_includes_with_odd_spacing(self):
        self.write("src/base/bad.h", '// A header.\n#pragma once\n/* x */ #  include"tensor/tensor.h"\n')
        self.refuses("check_layers", "src/base/bad.h:3")

    def test_an_empty_tree_is_no_success(self):
        with tempfile.TemporaryDirectory() as empty:
            self.root = Path(empty)
            self.refuses("check_layers", "no sources")


class Sizes(ToolTest):
    def test_accepts_the_good_tree(self):
        self.accepts("check_sizes")

    def test_file_of_600_lines(self):
        self.write("src/base/long.cpp", "int x;\n" * 600)
        self.accepts("check_sizes")
        self.write("src/base/long.cpp", "int x;\n" * 601)
        self.refuses("check_sizes", "src/base/long.cpp: 601 lines")

    def test_kernel_of_800_lines(self):
        self.write("src/kernels/cpu/avx2/long.cpp", "int x;\n" * 800)
        self.accepts("check_sizes")
        self.write("src/kernels/cpu/avx2/long.cpp", "int x;\n" * 801)
        self.refuses("check_sizes", "801 lines")

    def test_function_of_60_lines(self):
        self.write("src/base/f.cpp", "void f() {\n%s}\n" % lines(58))
        self.accepts("check_sizes")
        self.write("src/base/f.cpp", "void f() {\n%s}\n" % lines(59))
        self.refuses("check_sizes", "src/base/f.cpp:1: f has 61 lines")

    def test_functions_of_kernels_are_exempt(self):
        self.write("src/kernels/cpu/avx2/f.cpp", "void f() {\n%s}\n" % lines(100))
        self.accepts("check_sizes")

    def test_finds_functions_however_they_are_written(self):
        for head, name in (
            ("namespace a {\nnamespace {\nstatic int f(int a,\n  int b) {", "f"),
            ("class A {\n public:\n  explicit A(int x) : x_{x}, y_(1) {", "A"),
            ("struct B : A {\n  bool operator==(const B& o) const noexcept override {", "operator=="),
            ("template <class T>\nauto g(T&& t) -> decltype(t.size()) {", "g"),
            ("struct C {\n  C& operator()(const struct D& d) & {", "operator()"),
            ("const auto f = [](int x) {", "?"),
            ("TEST(Layers, DoesThis) {", "TEST(Layers, DoesThis)"),
            ("std::vector<std::pair<int, class K>> h(std::vector<int> v = {1, 2}) try {", "h"),
        ):
            closing = "}\n" * (head.count("{") - head.count("}") - 1)
            with self.subTest(head=head):
                self.write("src/base/f.cpp", "%s\n%s}\n%s" % (head, lines(70), closing.rstrip("\n") + ";\n"))
                self.refuses("check_sizes", "src/base/f.cpp", " lines, at most 60")

    def test_does_not_take_other_braces_for_functions(self):
        for head in ("namespace a {", "class A {", "struct B final : public C<int> {", "enum class E : int {",
                     "const std::vector<Row> kRows = {", "const Row kRows[] = {", 'extern "C" {', "union U {",
                     "class alignas(64) A {", "template <class T>\nstruct S {"):
            with self.subTest(head=head):
                self.write("src/base/f.cpp", "%s\n%s};\n" % (head, lines(70, "int x;")))
                self.accepts("check_sizes")

    def test_braces_in_text_do_not_count(self):
        self.write("src/base/f.cpp", 'void f() {\n  g("{{{", \'{\', 1\'000);  // {{{\n  /* { */ h(R"x({{")x");\n}\n\n'
                   "#define M {\n\nvoid g() {\n%s}\n" % lines(60))
        self.refuses("check_sizes", "src/base/f.cpp:8: g has 62 lines", "1 violations")

    def test_unbalanced_braces_are_reported(self):
        self.write("src/base/f.cpp", "void f() {\n")
        self.refuses("check_sizes", "src/base/f.cpp", "1 { and 0 ( without")
        self.write("src/base/f.cpp", "}\n")
        self.refuses("check_sizes", "src/base/f.cpp", "more } than {")


class Style(ToolTest):
    def refuses_text(self, name, text, *words):
        self.write(name, text)
        self.refuses("check_style", *words, options=["--no-format"])

    def test_accepts_the_good_tree(self):
        self.accepts("check_style", "--no-format")

    def test_refuses_what_is_not_formatted(self):
        self.accepts("check_style")
        self.write("src/base/f.cpp", "int f( ){return 1;}\n")
        self.refuses("check_style", "src/base/f.cpp: not formatted")

    def test_house_rules(self):
        for name, text, word in (
            ("src/base/a.h", "#pragma once\n", "opens with its purpose"),
            ("src/base/a.h", "// A.\n", "#pragma once"),
            ("src/base/a.cpp", "#define MIN(a, b) a\n", "macro MIN"),
            ("src/base/a.cpp", "std::regex r;\n", "std::regex"),
            ("src/base/a.cpp", "using namespace std;\n", "using namespace std"),
            ("src/base/a.cpp", "int get_size();\n", "get_size"),
            ("src/base/a.cpp", "int x = std::stoi(s);\n", "stoi"),
            ("src/base/a.cpp", "int x;  // TO" "DO later\n", "finish it"),
            ("src/base/a.cpp", "int x; \n", "blanks at the end"),
            ("src/base/a.cpp", "\tint x;\n", "tab"),
            ("src/base/a.cpp", "int x;", "no line end"),
            ("src/base/a.cpp", "int x;\r\n", "carriage return"),
            ("src/base/a.cpp", "// %s\n" % ("x" * 123), "126 characters"),
            ("docs/a.md", "a\n\n", "blank lines at the end"),
        ):
            with self.subTest(word=word):
                self.refuses_text(name, text, name, word)
                (self.root / name).unlink()

    def test_words_in_text_and_comments_are_no_code(self):
        self.write("src/base/a.cpp", 'const char* a = "std::regex get_x(";  // unlike std::regex\n')
        self.write("src/base/b.cpp", "auto* p = std::get_if<int>(&v);\nauto& q = std::get<0>(v);\n")
        self.accepts("check_style", "--no-format")


if __name__ == "__main__":
    unittest.main()
