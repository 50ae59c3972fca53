#!/usr/bin/env python3
"""A worker with two tools: one prices an order, one charges for it at a shop that is sometimes closed.

    PYTHONPATH=sdk/python python3 examples/python-worker/worker.py

Finds the local server by itself, or the one of PAWL_SERVER and PAWL_KEY. Ends with SIGTERM or Ctrl-C, once what it has
begun is done.
"""
import logging
import sys
from decimal import Decimal

import pawl

PRICES = {"bolt": Decimal("0.20"), "gear": Decimal("4.50"), "pawl": Decimal("3.75")}

worker = pawl.Worker(pawl.Client(), concurrency=4)


@worker.tool("shop.price")
def price(order):
    """The simplest kind of tool: a value comes in, a value goes out."""
    unknown = sorted(set(item["part"] for item in order["items"]) - set(PRICES))
    if unknown:
        # Trying again would not help: the run fails with this code.
        raise pawl.Terminal(f"no price for {', '.join(unknown)}", code="UNKNOWN_PART")
    total = sum(PRICES[item["part"]] * item["count"] for item in order["items"])
    return {"total": str(total)}


@worker.tool("shop.charge")
def charge(bill, context: pawl.Context):
    """A tool that takes its time, costs something, and must not charge twice."""
    for _ in range(3):
        context.check()  # ends here when the run was canceled meanwhile
        context.canceled.wait(0.05)
    context.cost("0.01")
    if context.attempt == 1:
        raise pawl.Retryable("the shop is closed", code="SHOP_CLOSED", after="200ms")
    # A real shop gets the key with the request, and can tell a second attempt from a second order.
    return {"charged": bill["total"], "reference": context.idempotency_key}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    sys.exit(1 if worker.run() else 0)
