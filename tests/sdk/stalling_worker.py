"""A worker in a process of its own, to be stopped and killed: stalling_worker.py NAME FOLDER

Its tool says in FOLDER that it has begun, and when the worker was told to stop; waits for the file `go` there, and
answers with the worker's name. It has one slot: with more, its open poll would be given leases while the process is
stopped.
"""
import pathlib
import signal
import sys
import threading
import time

import pawl
import pawl.worker

pawl.worker.POLL_WAIT_S = 0.3  # the last one is waited for at the end
name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
worker = pawl.Worker(pawl.Client(), name=name, concurrency=1, grace=600)


@worker.tool("test.stall")
def stall(_, context):
    saying = folder / f"saying-{name}"
    saying.write_text(str(context.attempt))
    saying.rename(folder / f"begun-{name}")  # who sees the file sees all of it
    while not (folder / "go").exists():
        if worker._stopping:
            (folder / "stopping").touch()
        time.sleep(0.01)
    (folder / f"ended-{name}").touch()
    return {"by": name}


@worker.tool("test.quit_by_signal")
def quit_by_signal(_):
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    return {"by": name}


print(f"left {worker.run()}")
