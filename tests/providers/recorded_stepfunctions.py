"""A server that speaks the wire protocol of Step Functions and says what AWS was recorded to say: idempotent starts,
retries in the history, task tokens, throttling. It executes nothing; a test moves its executions. For what the emulator
cannot do.
"""
import bisect
import http.server
import json
import re
import threading
import time

from aws_signature import ACCESS, SECRET, signature_problem  # noqa: F401

class Refused(Exception):
    def __init__(self, kind, message="", status=400):
        super().__init__(kind)
        self.kind, self.message, self.status = kind, message, status


class RecordedStepFunctions:
    def __init__(self):
        self.lock = threading.RLock()
        self.executions = {}  # by ARN
        self.calls = []       # operation and body, in order
        self.listed = {}      # what lists say of executions, by their number; by state machine and status
        self.tokens = 0       # of lists, so many were made,
        self.tokens_gone = 0  # and these are not valid any more
        self.told = []        # what became of task tokens
        self.gone_tokens = set()
        self.faults = []      # (operation, Refused) to be raised once each; or a function
        self.history_page = None
        self.list_page = None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer = outer.answer(self.headers, body)
                text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.0")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                """A client that was killed has hung up."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, headers, body):
        operation = headers.get("X-Amz-Target", "").removeprefix("AWSStepFunctions.")
        try:
            if problem := signature_problem(headers, body, "states"):
                raise Refused(problem)
            request = json.loads(body)
            with self.lock:
                self.calls.append((operation, request))
                for fault in [f for f in self.faults if f[0] in (operation, "*")][:1]:
                    self.faults.remove(fault)
                    if isinstance(fault[1], bytes):
                        return 200, fault[1]
                    raise fault[1]
                return 200, getattr(self, operation)(request)
        except Refused as refused:
            return refused.status, {"__type": f"com.amazonaws.states#{refused.kind}", "message": refused.message}

    # ---- Operations, as AWS answers them

    def DescribeStateMachine(self, request):
        machine = request["stateMachineArn"]
        if machine.endswith(":missing"):
            raise Refused("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{machine}'")
        return {"stateMachineArn": machine, "name": machine.rpartition(":")[2], "status": "ACTIVE"}

    def StartExecution(self, request):
        machine, name = request["stateMachineArn"], request["name"]
        if machine.endswith(":missing"):
            raise Refused("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{machine}'")
        arn = machine.replace(":stateMachine:", ":execution:") + ":" + name
        known = self.executions.get(arn)
        if known and (known["input"] != request["input"] or known["status"] != "RUNNING"):
            raise Refused("ExecutionAlreadyExists", f"Execution Already Exists: '{arn}'")
        if not known:
            self.executions[arn] = known = {"executionArn": arn, "stateMachineArn": machine, "name": name,
                                            "status": "RUNNING",
                                            "startDate": time.time(), "input": request["input"], "events": [],
                                            "number": len(self.executions)}
            self.list_anew(known, "RUNNING")
            self.add(arn, "ExecutionStarted", 0)
        return {"executionArn": arn, "startDate": known["startDate"]}

    def find(self, arn):
        if arn not in self.executions:
            raise Refused("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")
        return self.executions[arn]

    def DescribeExecution(self, request):
        return {key: value for key, value in self.find(request["executionArn"]).items()
                if key not in ("events", "number")}

    def ListExecutions(self, request):
        """Newest first. A token says behind which execution a page begins, and is another one each time; that execution
        need not run any more. What is listed of each is kept, so that a list costs little: benchmarks are not about
        this server.
        """
        of_status = self.listed.get((request["stateMachineArn"], request["statusFilter"]), {})
        numbers = sorted(of_status, reverse=True)
        at = 0
        if "nextToken" in request:
            found = re.fullmatch(r"behind-(\d+)-(\d+)", request["nextToken"])
            if not found or int(found[2]) <= self.tokens_gone:
                raise Refused("InvalidToken", f"Invalid Token: '{request['nextToken']}'")
            at = bisect.bisect_right(numbers, -int(found[1]), key=lambda number: -number)
        page = numbers[at:at + (self.list_page or request["maxResults"])]
        out = b'{"executions":[' + b",".join(of_status[number] for number in page) + b"]"
        if at + len(page) < len(numbers):
            self.tokens += 1
            out += b',"nextToken":"behind-%d-%d"' % (page[-1], self.tokens)
        return out + b"}"

    def list_anew(self, execution, status):
        """It has this status from now on."""
        machine, number = execution["stateMachineArn"], execution["number"]
        self.listed.get((machine, execution["status"]), {}).pop(number, None)
        execution["status"] = status
        shown = {key: execution[key] for key in ("executionArn", "stateMachineArn", "name", "status", "startDate")}
        self.listed.setdefault((machine, status), {})[number] = json.dumps(shown).encode()

    def GetExecutionHistory(self, request):
        events = list(self.find(request["executionArn"])["events"])
        if request.get("reverseOrder"):
            events.reverse()
        at, size = int(request.get("nextToken", 0)), self.history_page or request["maxResults"]
        out = {"events": events[at:at + size]}
        if at + size < len(events):
            out["nextToken"] = str(at + size)
        return out

    def StopExecution(self, request):
        execution = self.find(request["executionArn"])
        if execution["status"] == "RUNNING":
            self.list_anew(execution, "ABORTED")
            execution.update(stopDate=time.time(), error=request.get("error"), cause=request.get("cause"))
        return {"stopDate": execution["stopDate"]}

    def tell(self, kind, request):
        if request["taskToken"] in self.gone_tokens:
            raise Refused("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
        self.told.append((kind, request))
        return {}

    def SendTaskSuccess(self, request):
        return self.tell("success", request)

    def SendTaskFailure(self, request):
        return self.tell("failure", request)

    # ---- What a test makes of it

    def arn_of(self, run):
        return next((arn for arn in self.executions if arn.endswith(":" + run)), None)

    def add(self, arn, kind, previous=None, **details):
        with self.lock:
            events = self.executions[arn]["events"]
            event = {"id": len(events) + 1, "previousEventId": len(events) if previous is None else previous,
                     "timestamp": time.time(), "type": kind, **details}
            events.append(event)
            return event["id"]

    def end(self, arn, status, **more):
        with self.lock:
            self.list_anew(self.executions[arn], status)
            self.executions[arn].update(stopDate=time.time(), **more)

    def throttle(self, operation, times):
        with self.lock:
            self.faults += [(operation, Refused("ThrottlingException", "Rate exceeded"))] * times

    def count(self, operation):
        with self.lock:
            return sum(1 for name, _ in self.calls if name == operation)
