"""plant changes exactly the places that it is told, and refuses a list that does not fit the sources."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

PLANT = pathlib.Path(__file__).resolve().parent / "plant"
SOURCE = """\
bool may_run(int running, int limit) {
  return running <
         limit;
}
void stop() { count(1); }
void start() { count(1); }
"""
BUG = "ignore_limit: More runs than the limit.\n  src/core/a.cc\n"


class Plant(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.copy = self.top / "out/core/a.cc"
        self.write("src/core/a.cc", SOURCE)

    def write(self, path, content):
        (self.top / path).parent.mkdir(parents=True, exist_ok=True)
        (self.top / path).write_text(content)

    def plant(self, bugs):
        self.write("tests/simulator/planted_bugs.txt", bugs)
        return subprocess.run([sys.executable, PLANT, "--top", self.top, "--prefix=../", self.top / "out"],
                              capture_output=True, text=True, check=False)

    def planted(self, bugs):
        done = self.plant(bugs)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first, second, *lines = self.copy.read_text().splitlines()
        self.assertEqual([first, second], ['#include "simulator/planted.h"', '#line 1 "../src/core/a.cc"'])
        return lines

    def refused(self, bugs, *reasons):
        done = self.plant(bugs)
        self.assertEqual(done.returncode, 1)
        for reason in reasons:
            self.assertIn("tests/simulator/planted_bugs.txt:" + reason, done.stderr)
        self.assertFalse(self.copy.exists())

    def test_an_expression_is_replaced_however_it_is_broken_into_lines(self):
        lines = self.planted(BUG + "    replace running < limit\n    with running == 1\n")
        self.assertEqual(lines[1:3], [
            "  return (::pawl::planted(::pawl::Bug::ignore_limit) ? (running == 1) : (running <",
            "         limit));"])

    def test_a_condition_becomes_true_or_false(self):
        lines = self.planted(BUG + "    replace running < limit\n    with true\n")
        self.assertIn("(::pawl::planted(::pawl::Bug::ignore_limit) || (running <", lines[1])
        lines = self.planted(BUG + "    replace running < limit\n    with false\n")
        self.assertIn("(!::pawl::planted(::pawl::Bug::ignore_limit) && (running <", lines[1])

    def test_statements_are_inserted(self):
        lines = self.planted(BUG + "    after bool may_run(int running,\n        int limit) {\n"
                             "    insert return true;\n")
        self.assertEqual(lines[0], "bool may_run(int running, int limit) { "
                                   "if (::pawl::planted(::pawl::Bug::ignore_limit)) { return true; }")

    def test_in_says_which_of_several_places(self):
        lines = self.planted(BUG + "    in void start() { count(1);\n    replace 1\n    with 2\n")
        self.assertEqual(lines[4], "void stop() { count(1); }")
        self.assertEqual(lines[5], "void start() { count((::pawl::planted(::pawl::Bug::ignore_limit) ? (2) : (1))); }")

    def test_the_header_lists_all_bugs(self):
        self.planted(BUG + "    replace running < limit\n    with true\n\n" +
                     BUG.replace("ignore_limit", "stop_twice") + "    after void stop() {\n    insert count(1);\n")
        header = (self.top / "out/bugs.h").read_text()
        self.assertIn("  none,\n  ignore_limit,\n  stop_twice,\n", header)
        self.assertIn('    "none",\n    "ignore_limit",\n    "stop_twice",\n', header)

    def test_files_without_changes_stay_untouched(self):
        bugs = BUG + "    replace running < limit\n    with true\n"
        self.planted(bugs)
        before = self.copy.stat().st_mtime_ns
        self.planted(bugs)
        self.assertEqual(self.copy.stat().st_mtime_ns, before)

    def test_a_text_that_is_missing_is_refused(self):
        self.refused(BUG + "    replace running <= limit\n    with true\n",
                     "3: ignore_limit: src/core/a.cc has this text 0 times, instead of once")
        self.refused(BUG + "    after bool may(int running\n    insert return true;\n",
                     "3: ignore_limit: src/core/a.cc")
        self.refused(BUG + "    in running < limit\n    replace run\n    with 1\n",
                     "3: ignore_limit: the text of `in` has this text 0 times")

    def test_a_text_that_is_there_twice_is_refused(self):
        self.refused(BUG + "    replace count(1)\n    with count(2)\n",
                     "3: ignore_limit: src/core/a.cc has this text 2 times, instead of once")

    def test_all_that_does_not_fit_is_said_at_once(self):
        self.refused(BUG + "    replace one\n    with true\n    replace two\n    with true\n",
                     "3: ignore_limit: ", "5: ignore_limit: ")

    def test_two_bugs_in_one_place_are_refused(self):
        self.refused(BUG + "    replace running < limit\n    with true\n    in running < limit\n    replace limit\n"
                     "    with 7\n", "5: ignore_limit: another bug changes the same text in src/core/a.cc")

    def test_lists_that_are_not_of_the_format_are_refused(self):
        self.refused(BUG, " ignore_limit has no place")
        self.refused(BUG + "    replace running < limit\n", "3: ignore_limit: this place is not complete")
        self.refused(BUG + "    with true\n", "3: this line does not belong here")
        self.refused(BUG.replace(".cc", ".h"), "2: this line does not belong here")
        place = "    replace running < limit\n    with true\n"
        self.refused(BUG + place + BUG + place, "5: ignore_limit is there already")
        self.refused(BUG.replace("a.cc", "b.cc") + place, " cannot read ")


if __name__ == "__main__":
    unittest.main()
