"""pawl: start and follow durable runs, and work on their steps.

    client = pawl.Client()                      # the local server, or PAWL_SERVER and PAWL_KEY
    run = client.start("orders", {"id": 7})
    print(client.wait(run.id).status)

    worker = pawl.Worker(client)

    @worker.tool("orders.price")
    def price(order, context):
        return {"total": order["qty"] * order["price"]}

    worker.run()                                # until SIGTERM or SIGINT
"""
from .client import Client
from .errors import PawlError, Unreachable
from .gate import Allowed, ApprovalNeeded, Asked, Denied, LeaseOver, NotDone, action_of
from .model import (
    TERMINAL_STATUSES,
    Approval,
    Diagnostic,
    Event,
    Receipt,
    Run,
    RunSummary,
    Started,
    Step,
    Undoing,
    Workflow,
)
from .tasks import Task
from .tool import Canceled, Context, Retryable, Terminal
from .worker import Worker

__version__ = "0.1.0"

__all__ = [
    "TERMINAL_STATUSES",
    "Allowed",
    "Approval",
    "ApprovalNeeded",
    "Asked",
    "Canceled",
    "Client",
    "Context",
    "Denied",
    "Diagnostic",
    "Event",
    "LeaseOver",
    "NotDone",
    "PawlError",
    "Receipt",
    "Retryable",
    "Run",
    "RunSummary",
    "Started",
    "Step",
    "Task",
    "Terminal",
    "Undoing",
    "Unreachable",
    "Worker",
    "Workflow",
    "action_of",
]
