"""A server that speaks the wire protocol of Step Functions and says what AWS was recorded to say: idempotent starts, retries in
the history, task tokens, throttling. It executes nothing; a test moves its executions. For what the emulator cannot do.
"""
import hashlib
import hmac
import http.server
import json
import re
import threading
import time

ACCESS, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


def signature_problem(headers, body, method="POST", path="/"):
    """What is wrong with the request's signature, by AWS's own description of how one is made."""
    found = re.match(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/([^/]+)/aws4_request, *SignedHeaders=([^,]+), *Signature=(\w+)",
                     headers.get("Authorization", ""))
    if not found:
        return "MissingAuthenticationToken"
    access, day, region, service, signed, signature = found.groups()
    if access != ACCESS or service != "states":
        return "UnrecognizedClientException"
    if not {"host", "x-amz-date", "x-amz-target"} <= set(signed.split(";")):
        return "IncompleteSignature"
    if missing := [name for name in signed.split(";") if name not in headers]:
        return f"SignedButNotSent.{missing[0]}"
    canonical = "\n".join([method, path, "", *(f"{name}:{headers[name].strip()}" for name in signed.split(";")), "", signed,
                           hashlib.sha256(body).hexdigest()])
    to_sign = "\n".join(["AWS4-HMAC-SHA256", headers["X-Amz-Date"], f"{day}/{region}/{service}/aws4_request",
                         hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + SECRET).encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    expected = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    return None if hmac.compare_digest(expected, signature) else "InvalidSignatureException"


class Refused(Exception):
    def __init__(self, kind, message="", status=400):
        super().__init__(kind)
        self.kind, self.message, self.status = kind, message, status


class RecordedStepFunctions:
    def __init__(self):
        self.lock = threading.RLock()
        self.executions = {}  # by ARN
        self.calls = []       # operation and body, in order
        self.lists = {}       # pages, by what was asked
        self.told = []        # what became of task tokens
        self.gone_tokens = set()
        self.faults = []      # (operation, Refused) to be raised once each; or a function
        self.history_page = None
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
            if problem := signature_problem(headers, body):
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

    def StartExecution(self, request):
        machine, name = request["stateMachineArn"], request["name"]
        if machine.endswith(":missing"):
            raise Refused("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{machine}'")
        arn = machine.replace(":stateMachine:", ":execution:") + ":" + name
        known = self.executions.get(arn)
        if known and (known["input"] != request["input"] or known["status"] != "RUNNING"):
            raise Refused("ExecutionAlreadyExists", f"Execution Already Exists: '{arn}'")
        if not known:
            self.executions[arn] = known = {"executionArn": arn, "stateMachineArn": machine, "name": name, "status": "RUNNING",
                                            "startDate": time.time(), "input": request["input"], "events": []}
            self.lists.clear()
            self.add(arn, "ExecutionStarted", 0)
        return {"executionArn": arn, "startDate": known["startDate"]}

    def find(self, arn):
        if arn not in self.executions:
            raise Refused("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")
        return self.executions[arn]

    def DescribeExecution(self, request):
        return {key: value for key, value in self.find(request["executionArn"]).items() if key != "events"}

    def ListExecutions(self, request):
        """The same bytes as before while nothing has changed, and at no cost: benchmarks are not about this server."""
        asked = json.dumps(request)
        if asked not in self.lists:
            self.lists[asked] = json.dumps(self.list_executions(request)).encode()
        return self.lists[asked]

    def list_executions(self, request):
        of_machine = [e for e in self.executions.values()
                      if e["stateMachineArn"] == request["stateMachineArn"] and e["status"] == request["statusFilter"]]
        at, size = int(request.get("nextToken", 0)), request["maxResults"]
        out = {"executions": [{key: e[key] for key in ("executionArn", "stateMachineArn", "name", "status", "startDate")}
                              for e in of_machine[at:at + size]]}
        if at + size < len(of_machine):
            out["nextToken"] = str(at + size)
        return out

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
            self.lists.clear()
            execution.update(status="ABORTED", stopDate=time.time(), error=request.get("error"), cause=request.get("cause"))
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
            self.lists.clear()
            self.executions[arn].update(status=status, stopDate=time.time(), **more)

    def throttle(self, operation, times):
        with self.lock:
            self.faults += [(operation, Refused("ThrottlingException", "Rate exceeded"))] * times

    def count(self, operation):
        with self.lock:
            return sum(1 for name, _ in self.calls if name == operation)
