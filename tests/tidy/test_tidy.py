"""tidy finds each kind of violation, alone, in a small repository that has just this one."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TIDY = pathlib.Path(__file__).resolve().parent / "tidy"

MODULES = "core: | boost/json\nengine: core | sqlite3.h\n"
TABLE = "| folder | holds | includes |\n|---|---|---|\n| `core/` | a | `boost/json` |\n" \
        "| `engine/` | b | core, `sqlite3.h` |\n"
CORE = "#include <boost/json/value.hpp>\n\nint decide();\n"
CORE_THAT_INCLUDES_ENGINE = '#include <boost/json/value.hpp>\n\n#include "engine/engine.h"\n\nint decide();\n'
ENGINE = '#include <sqlite3.h>\n\n#include "core/decide.h"\n\nint main() { return decide(); }\n'


class Repository(unittest.TestCase):
    """A repository in which tidy finds nothing, until a test adds something."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.git("init", "-q", "-b", "main")
        self.write(".clang-format", "BasedOnStyle: Google\nColumnLimit: 120\n")
        self.write("src/modules.txt", MODULES)
        self.write("src/README.md", TABLE)
        self.write("src/core/decide.h", CORE)
        self.write("src/engine/engine.cc", ENGINE)
        self.write("tests/tidy/banned_phrases.txt", "# comment\nfrobnicated thing -> plain word\nFrob\n")
        self.commit("all: begin")
        self.base = self.git("rev-parse", "HEAD").strip()

    def git(self, *arguments):
        return subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "commit.gpgsign=false", *arguments],
            cwd=self.root, check=True, capture_output=True, text=True).stdout

    def write(self, path, content, executable=False):
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        place.chmod(0o755 if executable else 0o644)

    def commit(self, subject):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)

    def tidy(self, *arguments):
        self.git("add", "-A")
        done = subprocess.run([sys.executable, TIDY, "--root", self.root, "--since", self.base, *arguments],
                              capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        *findings, summary = done.stdout.splitlines()
        self.assertRegex(summary, rf"^tidy: {len(findings)} findings in \d+ files$")
        self.assertEqual(done.returncode, 1 if findings else 0)
        return findings

    def expect(self, *wanted):
        findings = self.tidy()
        self.assertEqual(len(findings), len(wanted), findings)
        for finding, start in zip(findings, wanted):
            self.assertTrue(finding.startswith(start), f"{finding}\ndoes not start with\n{start}")
            self.assertIn("; ", finding[len(start) - 1:] + start, "what to do is missing")


class Clean(Repository):
    def test_a_clean_repository_has_no_findings(self):
        self.expect()


class Format(Repository):
    def test_unformatted_code_is_found_and_fixed(self):
        self.write("src/engine/engine.cc", ENGINE.replace("return decide", "return  decide"))
        self.expect("src/engine/engine.cc:5: not formatted")
        self.assertEqual(self.tidy("--fix"), [])
        self.assertEqual((self.root / "src/engine/engine.cc").read_text(), ENGINE)

    def test_what_was_found_once_is_found_again(self):
        self.write("src/engine/engine.cc", ENGINE.replace("return decide", "return  decide"))
        self.tidy()
        self.expect("src/engine/engine.cc:5: not formatted")


class Text(Repository):
    def test_a_long_line(self):
        self.write("a.py", "x = 1\ny = '" + "é" * 116 + "'\n")
        self.expect("a.py:2: 122 columns; ")

    def test_characters_are_counted_and_not_bytes(self):
        self.write("a.py", "y = '" + "é" * 114 + "'\n")
        self.expect()

    def test_lines_that_cannot_be_broken(self):
        long = "word " * 30
        self.write("a.md", f"| {long}|\n\n```\n{long}x\n```\n\nhttps://example.com/{'x' * 120}\n[a](docs/{'x' * 120}.md)\n")
        self.write("b.md", f"<!-- pawl errors -->\n{long}x\n<!-- end -->\n")
        self.write("tests/a.cc", 'const char* a =\n    R"({"' + "a" * 120 + '"})";\n')
        self.write("tests/CMakeLists.txt", "a.cc\n")
        self.expect()

    def test_prose_in_markdown_is_limited(self):
        self.write("a.md", "word " * 30 + "x\n")
        self.expect("a.md:1: 151 columns; ")

    def test_sql_in_a_raw_string_is_limited(self):
        self.write("tests/a.cc", 'const char* a = R"(SELECT\n' + "a, " * 50 + 'b)";\n')
        self.write("tests/CMakeLists.txt", "a.cc\n")
        self.expect("tests/a.cc:2: 154 columns; ")

    def test_white_space(self):
        for content, wanted in (("a\tb\n", "a.txt:1: tab; "), ("a \n", "a.txt:1: spaces at the end"),
                                ("a\r\n", "a.txt:1: line ends with CR LF"), ("a", "a.txt:1: no newline"),
                                ("a\n\n", "a.txt:2: empty line at the end")):
            with self.subTest(content):
                self.write("a.txt", content)
                self.expect(wanted)

    def test_files(self):
        self.write("a.bin", b"\xff\0")
        self.expect("a.bin:1: not UTF-8 text; ")
        self.write("a.bin", "x" * (1 << 20) + "\n")
        self.expect("a.bin:1: 1048577 bytes; ")

    def test_executable_bits(self):
        self.write("a.txt", "x\n", executable=True)
        self.expect("a.txt:1: executable without #!; ")
        self.write("a.txt", "#!/bin/sh\n")
        self.expect("a.txt:1: #! but not executable; ")

    def test_places_of_one_machine(self):
        for text in ("/wor" "k/main", "/roo" "t/x", "https://registry" ".example.com/x"):
            with self.subTest(text):
                self.write("a.txt", f"see {text}\n")
                self.expect("a.txt:1: ")
        self.write("a.txt", "/tmp/x, runs/1/steps/work/logs, $HOME/work/x\n")
        self.expect()


class Modules(Repository):
    def test_an_include_of_a_module_that_is_not_declared(self):
        self.write("src/engine/engine.h", "#pragma once\n")
        self.write("src/core/decide.h", CORE_THAT_INCLUDES_ENGINE)
        self.expect("src/core/decide.h:3: core may not include engine; ")

    def test_an_include_of_a_library_that_is_not_declared(self):
        self.write("src/engine/engine.cc", "#include <curl/curl.h>\n" + ENGINE)
        self.expect("src/engine/engine.cc:1: engine may not include <curl/curl.h>; ")

    def test_a_dependency_that_is_not_used(self):
        self.write("src/engine/engine.cc", ENGINE.replace("#include <sqlite3.h>\n\n", ""))
        self.expect("src/modules.txt:2: engine does not include sqlite3.h; ")

    def test_a_cycle(self):
        self.write("src/modules.txt", "core: engine | boost/json\nengine: core | sqlite3.h\n")
        self.write("src/README.md", TABLE.replace("| a | `", "| a | engine, `"))
        self.write("src/engine/engine.h", "#pragma once\n")
        self.write("src/core/decide.h", CORE_THAT_INCLUDES_ENGINE)
        self.expect("src/modules.txt:1: cycle core -> engine -> core; ")

    def test_a_folder_without_a_line(self):
        self.write("src/store/store.cc", "int store;\n")
        self.expect("src/store/store.cc:1: src/store is not in src/modules.txt; ")

    def test_a_line_without_a_folder(self):
        self.write("src/modules.txt", MODULES + "store: |\n")
        self.write("src/README.md", TABLE + "| `store/` | c | nothing |\n")
        self.expect("src/modules.txt:3: src/store does not exist; ")

    def test_a_line_that_cannot_be_read(self):
        self.write("src/modules.txt", MODULES + "Store = core\n")
        self.expect("src/modules.txt:3: not `module: ")

    def test_the_table_differs_and_is_fixed(self):
        self.write("src/README.md", TABLE.replace("core, ", ""))
        self.expect("src/README.md:4: the dependencies of engine differ")
        self.assertEqual(self.tidy("--fix"), [])
        self.assertEqual((self.root / "src/README.md").read_text(), TABLE)

    def test_a_module_without_a_row(self):
        self.write("src/README.md", TABLE[:TABLE.index("| `engine/`")])
        self.expect("src/README.md:1: no row for engine; ")

    def test_a_header_without_a_module_or_above(self):
        self.write("src/engine/engine.cc", ENGINE.replace('"core/decide.h"', '"decide.h"'))
        self.expect('src/engine/engine.cc:3: "decide.h" has no module; ',
                    "src/modules.txt:2: engine does not include core; ")
        self.write("src/engine/engine.cc", ENGINE.replace('"core/decide.h"', '"../core/decide.h"'))
        self.expect('src/engine/engine.cc:3: "../core/decide.h" climbs; ',
                    "src/modules.txt:2: engine does not include core; ")

    def test_a_header_that_cmake_writes(self):
        self.write("CMakeLists.txt", "set(header generated/revision.h)\n")
        self.write("src/engine/engine.cc", ENGINE.replace('"core/decide.h"', '"core/decide.h"\n#include "revision.h"'))
        self.expect()

    def test_core_is_pure(self):
        for line, what in (("#include <thread>", "<thread>"), ("#include <unistd.h>", "<unistd.h>"),
                           ("inline const auto t = Clock::now();", "::now(")):
            with self.subTest(line):
                self.write("src/core/decide.h", f"#include <boost/json/value.hpp>\n{line}\n\nint decide();\n")
                findings = self.tidy("modules")
                self.assertEqual(len(findings), 1, findings)
                self.assertIn(f"src/core/decide.h:2: core is pure and may not use `{what}`; ", findings[0])


class Unused(Repository):
    def test_a_function_that_nothing_calls(self):
        self.write("src/core/decide.h", CORE + "struct A {\n  int forgotten() const;\n};\n")
        self.write("src/core/decide.cc", '#include "core/decide.h"\n\nint A::forgotten() const { return 1; }\n')
        self.expect("src/core/decide.h:5: nothing calls forgotten; ")

    def test_mentions_in_comments_and_texts_are_no_calls(self):
        self.write("src/core/decide.h", CORE + "// forgotten()\nint forgotten();\n")
        self.write("src/core/decide.cc", '#include "core/decide.h"\n\nconst char* a = "forgotten()";\n')
        self.expect("src/core/decide.h:4: nothing calls forgotten; ")

    def test_a_call_in_the_body_of_another_header(self):
        self.write("src/core/decide.h", CORE + "int helper();\ninline int twice() { return helper() + helper(); }\n")
        self.write("src/engine/engine.cc", ENGINE.replace("decide()", "twice() + decide()"))
        self.expect()

    def test_a_function_that_only_tests_call(self):
        self.write("src/core/decide.h", CORE + "int seam();\n")
        self.write("tests/core_test.cc", '#include "core/decide.h"\n\nint main() { return seam(); }\n')
        self.write("tests/CMakeLists.txt", "add_executable(core core_test.cc)\n")
        self.expect("src/core/decide.h:4: only tests call seam; ")
        self.write("tests/tidy/unused_allowed.txt", "seam: tests look through it\n")
        self.expect()

    def test_a_permission_that_is_not_needed(self):
        self.write("tests/tidy/unused_allowed.txt", "decide: tests look through it\n")
        self.expect("tests/tidy/unused_allowed.txt:1: decide is not a function that only tests call; ")

    def test_a_python_function_that_nothing_calls(self):
        self.write("a.py", "class A:\n    def forgotten(self):\n        pass\n\n    def __init__(self): pass\n")
        self.expect("a.py:2: nothing calls forgotten; ")

    def test_files_that_nothing_mentions(self):
        self.write("src/engine/alone.h", "#pragma once\n")
        self.write("tests/alone_test.cc", "int a;\n")
        self.write("tests/alone.py", "A = 1\n")
        self.expect("src/engine/alone.h:1: nothing includes alone.h; ", "tests/alone.py:1: nothing mentions alone.py; ",
                    "tests/alone_test.cc:1: no CMakeLists.txt compiles alone_test.cc; ")


class Phrases(Repository):
    def test_a_banned_phrase(self):
        self.write("a.md", "A line.\nA Frobnicated thing.\n")
        self.expect("a.md:2: `frobnicated thing` is banned; write `plain word`")

    def test_a_phrase_over_two_lines(self):
        self.write("src/engine/engine.cc", "// What is frobnicated\n// thing.\n" + ENGINE)
        self.expect("src/engine/engine.cc:1: `frobnicated thing` is banned; ")

    def test_capital_letters_match_exactly_and_as_whole_words(self):
        self.write("a.md", "frob Frobs\n")
        self.expect()
        self.write("a.md", "a Frob\n")
        self.expect("a.md:1: `Frob` is banned; ")

    def test_a_phrase_of_one_folder(self):
        self.write("tests/tidy/banned_phrases.txt", "frobnicated thing -> plain word\nFrob\nsrc/: hooked -> a list\n")
        self.write("docs/a.md", "hooked\n")
        self.expect()
        self.write("src/engine/engine.cc", "// Hooked.\n" + ENGINE)
        self.expect("src/engine/engine.cc:1: `hooked` is banned in src/; write `a list`")

    def test_names_of_files(self):
        self.write("tests/tidy/banned_phrases.txt", "# comment\nfrobnicated thing -> plain word\nFrob\nroom_of\n")
        self.write("docs/room_of.md", "x\n")
        self.expect("docs/room_of.md:1: `room_of` is banned in names of files; ")

    def test_the_list_only_grows(self):
        self.write("tests/tidy/banned_phrases.txt", "Frob\n")
        self.expect("tests/tidy/banned_phrases.txt:1: `frobnicated thing` was removed; ")
        self.commit("tests: shorten the list")
        self.expect("tests/tidy/banned_phrases.txt:1: `frobnicated thing` was removed; ")


class Messages(Repository):
    WANTED = "src/engine/engine.cc:6: decides by the words of a message; "

    def line(self, code):
        self.write("src/engine/engine.cc", ENGINE + code + "\n")

    def test_a_branch_on_the_words_of_a_message(self):
        for code in ('bool a = refusal.message.starts_with("its parent");',
                     'bool a = failed->message.find("404") != npos;',
                     'bool a = refusal.message() . contains("x");',
                     'bool a = refusal.message == "there is none";',
                     'bool a = "there is none" != refusal->message;',
                     'bool a = std::regex_search(text(failed.message), pattern);',
                     'bool a = std::string_view(error.what()).ends_with("404");'):
            with self.subTest(code):
                self.line(code)
                findings = self.tidy("messages")
                self.assertEqual(len(findings), 1, findings)
                self.assertTrue(findings[0].startswith(self.WANTED), findings)

    def test_a_message_may_be_shown_and_records_may_be_equal(self):
        for code in ("bool a = one.message == other.message && other.code == 1;",
                     "auto a = print(refusal.message, refusal.code == 2);",
                     "bool a = refusal.message.empty();",
                     '// refusal.message == "x"',
                     "bool a = stream.find(key) && refusal.message.size() > 3;"):
            with self.subTest(code):
                self.line(code)
                self.assertEqual(self.tidy("messages"), [])

    def test_a_search_for_the_type_of_an_event(self):
        for code in (r'bool a = line.find("\"type\":\"run.") != npos;', 'auto a = R"("type":"task.created")";'):
            with self.subTest(code):
                self.line(code)
                findings = self.tidy("messages")
                self.assertEqual(len(findings), 1, findings)
                self.assertTrue(findings[0].startswith("src/engine/engine.cc:6: looks for the type"), findings)
        self.line(r'auto example = "{\"type\":\"run.created\"}";')
        self.assertEqual(self.tidy("messages"), [])


class Commits(Repository):
    def test_subjects(self):
        for subject, wanted in (("cli: " + "x" * 68, "73 characters"), ("Fix it", "not `area: summary`"),
                                ("Cli: fix it", "not `area: summary`"), ("cli: fix it.", "ends with a period"),
                                ("cli: fix it; move that", "names two changes"), ("cli: fixes it", "`fixes` is not"),
                                ("cli: fixed it", "`fixed` is not"), ("cli: fixing it", "`fixing` is not"),
                                ("cli: who has just come", "`who` is not")):
            with self.subTest(subject):
                self.commit(subject)
                findings = self.tidy()
                self.assertEqual(len(findings), 1, findings)
                self.assertIn(f"subject `{subject}`: {wanted}", findings[0])
                self.git("reset", "-q", "--soft", self.base)

    def test_good_subjects(self):
        for subject in ("cli: fix it", "src/core: process the last event", "tests: embed data", "docs: pass a flag"):
            self.commit(subject)
        self.expect()

    def test_without_history_the_rest_is_checked(self):
        self.base = "0" * 40
        self.write("a.txt", "x \n")
        self.expect("a.txt:1: spaces at the end")


if __name__ == "__main__":
    unittest.main()
