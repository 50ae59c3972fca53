"""pawl policy: in a folder, and at a server."""
import json
import unittest

from pawl_case import SOURCE, PawlCase
from server_case import ServerCase

FIRST = "policy: p\nrules:\n- {id: low, effect: allow, when: risk = 'low'}\n"
SECOND = "policy: p\nrules: [{id: all, effect: deny}]"
BAD = "policy: p\nrules:\n- {id: a, effect: deny, when: conector = 'x'}\n"


class Files(PawlCase):
    def test_check_says_what_is_wrong_and_where(self):
        good = self.expect(self.pawl("policy", "check", self.workflow(FIRST, "good.yaml"), data=False), 0)
        self.assertRegex(good.stdout, r"good.yaml: p has 1 rule, no errors\n$")
        bad = self.expect(self.pawl("policy", "check", self.workflow(BAD, "bad.yaml"), data=False), 2)
        self.assertRegex(bad.stderr, r"bad.yaml:3:31: the condition of rule `a`: no such column: conector; did you "
                                     r"mean "
                                     r"`connector`\?\n$")
        as_json = self.expect(self.pawl("policy", "check", "good.yaml", "--json", data=False), 0)
        self.assertEqual(json.loads(as_json.stdout), {"policy": "p", "rules": 1, "warnings": []})

    def test_check_warns_of_a_cast_of_fields(self):
        for when in ("CAST(fields ->> 'amount' AS REAL) > 1000", "risk = 'high' AND cast ( json_extract(fields, '$.a') "
                     "AS INTEGER) = 1"):
            text = "policy: p\nrules:\n- id: large\n  effect: deny\n  when: " + json.dumps(when) + "\n"
            file = self.workflow(text, "cast.yaml")
            checked = self.expect(self.pawl("policy", "check", file, "--json", data=False), 0)
            self.assertIn("warning: rule `large` uses CAST on `fields`", checked.stderr)
            self.assertIn("number(fields -> 'amount')", json.loads(checked.stdout)["warnings"][0])

    def test_the_examples_are_good(self):
        for file in sorted((SOURCE / "examples/policies").iterdir()):
            self.expect(self.pawl("policy", "check", file, data=False), 0)

    def test_wrong_words(self):
        for words, reason in ((("frob",), "frob is none of: show, put, test, history, check"),
                              (("put",), "which policy\\? pawl policy put FILE"),
                              (("show", "x.yaml"), "pawl policy show takes no file"),
                              (("history", "--version", "1"), "--version is for pawl policy show")):
            self.assertRegex(self.expect(self.pawl("policy", *words), 2).stderr, reason)
        self.expect(self.pawl("policy", "put", "nowhere.yaml"), 4)


class Commands:
    """The same in a folder and at a server."""

    def policy(self, *words, code=0):
        return self.expect(self.pawl("policy", *words), code)

    def test_put_show_and_history(self):
        self.begin()
        self.assertEqual(self.policy("put", self.workflow(FIRST)).stdout, "v1\n")
        self.assertEqual(self.policy("put", self.workflow(FIRST)).stdout, "v1\n")
        self.assertEqual(self.policy("put", self.workflow(SECOND)).stdout, "v2\n")
        self.assertEqual(self.policy().stdout, SECOND + "\n")
        self.assertEqual(self.policy("show", "--version", "1").stdout, FIRST)
        self.assertIn("policy: default", self.policy("show", "--version", "0").stdout)
        self.assertRegex(self.policy("show", "--version", "3", code=4).stderr, "there is no policy v3")
        self.assertEqual(json.loads(self.policy("show", "--json").stdout)["version"], 2)
        self.assertEqual([line.split()[0] for line in self.policy("history").stdout.splitlines()],
                         ["version", "2", "1"])
        lines = [json.loads(line) for line in self.policy("history", "--json").stdout.splitlines()]
        self.assertEqual([line["version"] for line in lines], [2, 1])
        self.assertRegex(self.policy("put", self.workflow(BAD), code=2).stderr, r"workflow.yaml:3:31: .*rule `a`")
        self.assertEqual(json.loads(self.policy("show", "--json").stdout)["version"], 2)

    def test_a_draft_is_tested_on_what_runs_recorded(self):
        self.begin()
        self.policy("put", self.workflow(FIRST))
        tried = self.policy("test", self.workflow(SECOND))
        self.assertRegex(tried.stdout, "no run has proposed an action yet")
        result = json.loads(self.policy("test", self.workflow(SECOND), "--json").stdout)
        self.assertEqual(result["summary"], {"policy_version": 1, "actions": 0, "changed": 0, "changes": []})
        self.assertRegex(self.policy("test", self.workflow(BAD), code=2).stderr, "no such column")


class InFolder(Commands, PawlCase):
    def begin(self):
        pass

    def test_a_folder_with_policies_verifies(self):
        self.policy("put", self.workflow(FIRST))
        self.policy("put", self.workflow(SECOND))
        self.expect(self.pawl("verify"), 0)


class AtServer(Commands, ServerCase):
    def begin(self):
        self.serve()


if __name__ == "__main__":
    unittest.main()
