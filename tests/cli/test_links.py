"""No link leads nowhere: in the pages, in the help of every command, in the OpenAPI document, and in what the sources
mention. Addresses on the internet are not asked; whatever is in the repository must be there, with its heading."""
import json
import pathlib
import re
import subprocess
import unittest
import urllib.request

from pawl_case import PAWL, SOURCE, TIMEOUT_S, PawlCase

LINK = re.compile(r"(?<!!)\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)")
MENTION = re.compile(r"\b((?:docs|examples|sdk|packaging|tests|src|bench)/[\w./-]*\w\.(?:md|yaml|py|json))(#[\w-]+)?")
SOURCES = {".cc", ".h", ".py", ".yaml", ".service", ".txt", ".cmake", ".md"}


def slug_of(heading):
    """The anchor that a heading gets where Markdown is shown."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors_of(page):
    found, counts = set(), {}
    in_block = False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            in_block = not in_block
        elif not in_block and (heading := re.match(r"#{1,6} +(.*)", line)):
            slug = slug_of(heading[1])
            counts[slug] = counts.get(slug, 0) + 1
            found.add(slug if counts[slug] == 1 else f"{slug}-{counts[slug] - 1}")
    return found


def without_blocks(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def tracked():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=SOURCE, capture_output=True,
                            text=True, check=True)
    return [SOURCE / line for line in listed.stdout.splitlines() if (SOURCE / line).is_file()]


class Links(PawlCase):
    def follow(self, target, base, where):
        """Why a link from a file in `base` leads nowhere; None when it does not."""
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            return None if target.startswith(("http://", "https://", "mailto:")) else f"{where}: strange {target}"
        path, _, anchor = target.partition("#")
        page = (base / path).resolve() if path else pathlib.Path(where)
        if not page.exists():
            return f"{where}: there is no {target}"
        if anchor and page.suffix == ".md" and anchor not in anchors_of(page):
            return f"{where}: {page.name} has no heading for #{anchor}"
        return None

    def follow_mentions(self, text, where):
        return [problem for path, anchor in MENTION.findall(text)
                if (problem := self.follow(path + anchor, SOURCE, where))]

    def assert_none(self, problems):
        self.assertEqual([problem for problem in problems if problem], [])

    def test_every_link_of_every_page_leads_somewhere(self):
        pages = [path for path in tracked() if path.suffix == ".md"]
        self.assertGreater(len(pages), 20)
        links = 0
        problems = []
        for page in pages:
            for target in LINK.findall(without_blocks(page.read_text())):
                links += 1
                problems.append(self.follow(target, page.parent, str(page)))
        self.assertGreater(links, 50)
        self.assert_none(problems)

    def test_every_file_that_sources_mention_is_there(self):
        skipped = {SOURCE / "tests" / "tidy" / "test_tidy.py", pathlib.Path(__file__).resolve()}
        problems = []
        for path in tracked():
            if path.suffix in SOURCES and path.resolve() not in skipped:
                problems += self.follow_mentions(path.read_text(errors="replace"), str(path))
        self.assert_none(problems)

    def test_every_page_that_help_names_is_there(self):
        whole = self.expect(self.pawl("--help", data=False), 0).stdout
        commands = re.findall(r"^ {2}([a-z][a-z-]+) {2,}", whole, re.MULTILINE)
        self.assertIn("policy", commands)
        texts = {"--help": whole}
        for command in commands:
            texts[command] = self.expect(self.pawl("help", command, data=False), 0).stdout
        self.assertIn("docs/policy.md", texts["policy"])
        self.assert_none(problem for name, text in texts.items()
                         for problem in self.follow_mentions(text, f"pawl help {name}"))

    def test_every_page_that_the_openapi_document_names_is_there(self):
        server = self.start("serve", "--listen", "127.0.0.1:0")
        self.wait_until((self.data / "server.json").exists, "the server")
        url = json.loads((self.data / "server.json").read_text())["url"]
        with urllib.request.urlopen(url + "/openapi.json", timeout=TIMEOUT_S) as answer:
            text = answer.read().decode()
        server.terminate()
        self.assertIn("docs/errors.md", text)
        self.assert_none(self.follow_mentions(text, "openapi.json"))
        self.assert_none(self.follow(target, SOURCE, "openapi.json") for target in LINK.findall(text))

    def test_a_link_that_leads_nowhere_is_found(self):
        page = self.folder / "page.md"
        page.write_text("# One\n\n## Two words, `x`\n## One\n")
        follow = lambda target: self.follow(target, self.folder, str(page))
        self.assertEqual([follow(good) for good in ("page.md", "#one-1", "page.md#two-words-x", "https://x.example")],
                         [None] * 4)
        for bad in ("gone.md", "#three", "page.md#one-2", "file:///etc"):
            self.assertTrue(follow(bad), bad)
        self.assertTrue(self.follow_mentions("see docs/nothing-of-the-kind.md", "here"))


if __name__ == "__main__":
    unittest.main()
