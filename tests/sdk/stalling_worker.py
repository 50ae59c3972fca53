"""A worker in a process of its own, to be stopped and killed: stalling_worker.py NAME FOLDER

Its tool says in FOLDER that it has begun, waits for the file `go` there, and answers with the worker's name. It has one
slot: with more, its open poll would be given leases while the process is stopped.
"""
import pathlib
import sys
import time

import pawl

name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
worker = pawl.Worker(pawl.Client(), name=name, concurrency=1, grace=20)


@worker.tool("test.stall")
def stall(_, context):
    saying = folder / f"saying-{name}"
    saying.write_text(str(context.attempt))
    saying.rename(folder / f"begun-{name}")  # who sees the file sees all of it
    while not (folder / "go").exists():
        time.sleep(0.01)
    (folder / f"ended-{name}").touch()
    return {"by": name}


print(f"left {worker.run()}")
