"""The document at /openapi.json, read by a public linter."""
import pathlib
import subprocess

from served_case import ServedCase

LINT = pathlib.Path(__file__).parent / "lint-openapi"
COULD_NOT_BE_FETCHED = 77


class Lint(ServedCase):
    def test_has_nothing_to_say(self):
        document = self.folder / "openapi.json"
        document.write_text(self.ask("GET", "/openapi.json").text)
        result = subprocess.run([LINT, document], capture_output=True, text=True)
        if result.returncode == COULD_NOT_BE_FETCHED:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
