"""What the tests of connectors share: the real binary, secrets in a folder, and what became of a step and its
receipts."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from server_case import ServerCase  # noqa: E402


class ConnectorCase(ServerCase):
    secrets = {}

    def setUp(self):
        super().setUp()
        folder = self.folder / "secrets" / "default"
        folder.mkdir(parents=True)
        for name, value in self.secrets.items():
            (folder / name).write_text(value)

    def flags(self):
        return ["--secrets-folder", str(self.folder / "secrets"), "--http-allow", "127.0.0.1"]

    def step(self, tool, attempts=1, with_=None, key=None, **more):
        """A step of one workflow. JSON is YAML, so `with` is printed as it is."""
        step = {"id": "do", "tool": tool, "with": with_, "timeout": "10m",
                "retry": {"max_attempts": attempts, "base": "10ms", "max": "20ms"}, **more}
        if key:
            step["idempotency_key"] = key
        return step

    def run_steps(self, *steps, code=0, flags=(), name="w"):
        text = json.dumps({"workflow": name, "steps": list(steps)})
        result = self.pawl("run", self.workflow(text), "--json", *self.flags(), *flags)
        self.assertEqual(result.returncode, code, result.stdout[-3000:] + result.stderr)
        for value in self.secrets.values():
            self.assertNotIn(json.dumps(value)[1:-1], result.stdout + result.stderr)
        return json.loads(result.stdout.splitlines()[-1])["run"]

    def run_step(self, tool, with_, code=0, **more):
        run = self.run_steps(self.step(tool, with_=with_, **more), code=code)
        self.receipts = run["receipts"]
        return run["steps"][0]

    def output(self, step):
        self.assertEqual(step["status"], "succeeded", step)
        return step["output"]

    def with_one_lost_answer(self, run):
        """run(timeout) makes a step of which one request is never answered. Every other one must be answered within
        `timeout`: when there were further attempts, the machine was too busy for that, and it is called with a longer
        one."""
        for timeout in ("300ms", "3s", "30s"):
            step = run(timeout)
            if step["attempts"] == 2:
                return step
        self.fail(f"there were {step['attempts']} attempts")

    def only_receipt(self, status):
        self.assertEqual([receipt["status"] for receipt in self.receipts], [status], self.receipts)
        return self.receipts[0]

    def undo(self, receipt):
        """What a reversal would do: the same tool with the undo's fields."""
        action = receipt["undo"]
        self.assertIsNotNone(action, receipt)
        return f"{action['connector']}.{action['operation']}", action["fields"], action["idempotency_key"]
