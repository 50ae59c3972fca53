"""README, the quickstarts and the guide to the API work as written: every block that a reader is told to type is run,
and prints what the page shows. pages.py says how a block is marked."""
import pathlib
import shutil
import tempfile
import unittest
import unittest.mock

from pages import READ, Block, Shell, blocks_of, fits, plain
from pawl_case import SOURCE
from server_case import new_database

# What is typed and not run here, by its first line: it needs root, the network or an hour.
NOT_RUN = {
    "cmake/build release pawl package_texts": "tests/packaging installs the package",
    "./run     # installs what is missing, builds, and executes an example": "builds; its example is run",
    'pawl task add "Announce the release" "Announce the release. Ask which version." --folder "$PWD/work" '
    "--budget 2.00 --run": "needs a model",
    "PAWL_SERVER=https://pawl.example:7295 PAWL_KEY=pawl_... python3 worker.py": "needs another machine",
}
DATABASE = "postgres://pawl@db.example/pawl"


class Quickstarts(unittest.TestCase):
    def follow(self, name, database=None):
        folder = pathlib.Path(tempfile.mkdtemp(prefix=""))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        shell = Shell(folder, {})
        self.addCleanup(shell.end)
        printed = None
        ran = 0
        for block in blocks_of(SOURCE / name):
            if block.kind == "sh":
                text = block.text.replace(DATABASE, database) if database else block.text
                printed, failed = shell.run(text)
                printed = printed.replace(database, DATABASE) if database else printed
                ran += 1
                wanted = [int(block.options["exits"])] if "exits" in block.options else []
                self.assertEqual(failed, wanted, f"{block.where}: exit codes of commands that failed\n{printed}")
                if "listens" in block.options:
                    shell.wait_for(int(block.options["listens"]), "pawl serve" in block.text)
            elif block.kind == "text":
                self.assertIsNotNone(printed, f"{block.where}: no block before it prints this")
                self.assertTrue(fits(plain(block.text), plain(printed)),
                                f"{block.where} shows\n{block.text}\nand this was printed\n{printed}")
                printed = None
            elif block.kind == "console":
                self.assertIn(block.text.splitlines()[0], NOT_RUN, f"{block.where} is not run, and not in NOT_RUN")
            else:
                self.assertIn(block.kind, READ, f"{block.where}: say what the block is (pages.py)")
        self.assertGreater(ran, 0)
        self.assertEqual(shell.jobs(), "", "the page leaves this running")

    def test_readme(self):
        self.follow("README.md")

    def test_api(self):
        self.follow("docs/api.md")

    def test_backend(self):
        self.follow("docs/quickstart-backend.md")

    def test_automation(self):
        self.follow("docs/quickstart-automation.md")

    def test_agents(self):
        self.follow("docs/quickstart-agents.md")

    def test_operator(self):
        database = new_database()
        if not database:
            self.skipTest("needs a PostgreSQL: tests/postgres/cluster")
        self.follow("docs/quickstart-operator.md", database)


class Rules(unittest.TestCase):
    """The test itself finds what it should."""

    def test_what_may_differ(self):
        self.assertTrue(fits(plain("run_01m7twc165e00axj1y9cqy4x00  success  1.0s"),
                             plain("run_01m7twc28pe00bb83g690n3mt8 success   59m59s\n")))
        self.assertTrue(fits(plain("a\n...\nz ... z"), plain("a\nb\nc\nz b z")))
        self.assertFalse(fits(plain("a\n...\nz"), plain("a\nb")))
        self.assertFalse(fits(plain("success"), plain("success\nmore")))
        self.assertFalse(fits(plain("2 boxes"), plain("3 boxes")))

    def test_a_command_that_fails_is_found_wherever_it_stands(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix=""))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        shell = Shell(folder, {})
        self.addCleanup(shell.end)
        self.assertEqual(shell.run("false\necho after"), ("after\n", [1]))
        self.assertEqual(shell.run("x=$(exit 3)\necho $x | cat; export A=1"), ("\n", [3]))
        self.assertEqual(shell.run("echo $A; pawl-is-not-here"), (unittest.mock.ANY, [127]))
        self.assertEqual(shell.run("sleep 100 &"), ("", []))
        self.assertIn("sleep", shell.jobs())
        self.assertEqual(shell.run("kill %1; wait %1 || true"), (unittest.mock.ANY, []))

    def test_every_quickstart_is_followed(self):
        pages = {path.name for path in (SOURCE / "docs").glob("quickstart-*.md")}
        tested = {f"quickstart-{name[5:]}.md" for name in dir(Quickstarts) if name.startswith("test_")}
        self.assertEqual(pages, tested - {"quickstart-readme.md", "quickstart-api.md"})

    def test_output_is_shown_and_not_left_out(self):
        for page in ["README.md", *(f"docs/{path.name}" for path in (SOURCE / "docs").glob("quickstart-*.md"))]:
            for block in blocks_of(SOURCE / page):
                if block.kind == "text":
                    self.assertNotEqual(plain(block.text), ["..."], block.where)

    def test_a_block_says_what_it_is(self):
        block = Block("page", 1, "sh exits=5 listens=7295", "x")
        self.assertEqual((block.kind, block.options), ("sh", {"exits": "5", "listens": "7295"}))


if __name__ == "__main__":
    unittest.main()
