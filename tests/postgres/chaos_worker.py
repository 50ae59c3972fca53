"""A worker of the Python SDK for test_chaos: chaos_worker.py NAME TARGET. Each step is one call of the target under the
step's idempotency key, as the SDK tells tools to make it."""
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "sdk/python"))
import pawl  # noqa: E402

name, target = sys.argv[1], sys.argv[2]
worker = pawl.Worker(pawl.Client(), name=name, concurrency=4, grace=5)


@worker.tool("chaos.effect")
def effect(given, context):
    request = urllib.request.Request(target, method="POST", data=b"",
                                     headers={"Idempotency-Key": context.idempotency_key})
    urllib.request.urlopen(request, timeout=120).read()
    time.sleep(given["takes_s"])
    return {"key": context.idempotency_key}


worker.run()
