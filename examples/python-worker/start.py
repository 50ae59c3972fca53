#!/usr/bin/env python3
"""Publishes order.yaml, starts a run of it, and waits for the end.

    PYTHONPATH=sdk/python python3 examples/python-worker/start.py [PART COUNT]
"""
import pathlib
import sys

import pawl


def main() -> int:
    part, count = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) == 3 else ("gear", 3)
    client = pawl.Client()
    client.publish("order", pathlib.Path(__file__).with_name("order.yaml").read_text())
    run = client.start("order", {"items": [{"part": part, "count": count}]})
    print(f"{run.id} started")
    run = client.wait(run.id, timeout=60)
    for step in run.steps:
        print(f"  {step.id}: {step.status}, {step.attempts} attempts, {step.output}")
    print(f"{run.id} {run.status} for ${run.cost_usd}" + (f": {run.error_code}" if run.error_code else ""))
    return 0 if run.succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
