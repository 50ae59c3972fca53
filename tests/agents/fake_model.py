"""The model API on loopback, as far as the Claude Code CLI needs it: no model, but a script in the prompt.

Each line of the newest text that the user said is one thing to do, in order:

    call NAME {"json": "input"}   answers with a call of this tool
    spend TOKENS                  the answer to the next line costs this many output tokens
    hang NAME                     does not answer before release(NAME)
    anything else                 is what the answer ends with

Once all calls are made, it answers with what the tools gave back and with the rest of the text.
"""
import http.server
import itertools
import json
import re
import threading


numbers = itertools.count(1)  # of calls and messages: the CLI takes two with the same id for one


class FakeModel:
    def __init__(self):
        self.requests = []  # of those with tools: the messages, newest last
        self.systems = []   # the same: what stands before the messages
        self.keys = set()   # that somebody sent, for whatever
        self.arrived = {}   # of `hang NAME`: set once somebody asked
        self.released = {}
        self.lock = threading.Lock()
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                model.keys.add(self.headers.get("x-api-key") or self.headers.get("authorization"))
                if not self.path.startswith("/v1/messages"):
                    return self.send(b"{}", "application/json")
                given = json.loads(body)
                if "count_tokens" in self.path:
                    return self.send(b'{"input_tokens":1}', "application/json")
                answer = model.answer(given)
                if not given.get("stream"):
                    return self.send(json.dumps(answer).encode(), "application/json")
                self.send("".join(events_of(answer)).encode(), "text/event-stream")

            def do_GET(self):
                self.send(b"{}", "application/json")

            do_HEAD = do_GET

            def send(self, body, kind):
                try:
                    self.send_response(200)
                    self.send_header("content-type", kind)
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # it was killed while it waited

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a connection of a CLI that was killed

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        with self.lock:
            for event in self.released.values():
                event.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def event(self, kind, name):
        with self.lock:
            return kind.setdefault(name, threading.Event())

    def hangs(self, name):
        return self.event(self.arrived, name).is_set()

    def release(self, name):
        self.event(self.released, name).set()

    def answer(self, given):
        if not given.get("tools"):
            return message([{"type": "text", "text": "a title"}])
        self.requests.append(given["messages"])
        self.systems.append(json.dumps(given.get("system")))
        lines, results = script_of(given["messages"])
        tokens, calls, words = 10, 0, []
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "call":
                calls += 1
                if calls > len(results):
                    name, _, text = rest.partition(" ")
                    return message([{"type": "tool_use", "id": f"toolu_{next(numbers)}", "name": name,
                                     "input": json.loads(text or "{}")}], tokens)
            elif calls < len(results):
                pass  # behind us
            elif word == "spend":
                tokens = int(rest)
            elif word == "hang":
                self.event(self.arrived, rest).set()
                self.event(self.released, rest).wait()
            else:
                words.append(line)
        return message([{"type": "text", "text": "\n".join(results + words) or "nothing"}], tokens)


def text_of(content):
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content if block.get("type") == "text")


def script_of(messages):
    """The lines of the newest text of the user, and what the tools that were called since then gave back."""
    results = []
    for each in reversed(messages):
        if each["role"] != "user":
            continue
        content = each["content"]
        given_back = [] if isinstance(content, str) else [text_of(block.get("content") or "") for block in content
                                                          if block.get("type") == "tool_result"]
        results[:0] = given_back
        if given_back:
            continue  # what else stands there is the CLI's own
        text = re.sub(r"<system-reminder>.*?</system-reminder>", "", text_of(content), flags=re.DOTALL).strip()
        if text:
            return [line.strip() for line in text.splitlines() if line.strip()], results
    return [], results


def message(content, tokens=10):
    return {"id": f"msg_{next(numbers)}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": content,
            "stop_reason": "tool_use" if content[0]["type"] == "tool_use" else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": tokens, "cache_creation_input_tokens": 0,
                      "cache_read_input_tokens": 0}}


def events_of(answer):
    """The same as a stream."""
    def event(kind, **more):
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"

    start = dict(answer, content=[], stop_reason=None, usage=dict(answer["usage"], output_tokens=1))
    yield event("message_start", message=start)
    for index, block in enumerate(answer["content"]):
        if block["type"] == "text":
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            yield event("content_block_start", index=index, content_block=dict(block, input={}))
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    yield event("message_delta", delta={"stop_reason": answer["stop_reason"], "stop_sequence": None},
                usage=answer["usage"])
    yield event("message_stop")


if __name__ == "__main__":  # to try things by hand
    import signal
    model = FakeModel()
    print(model.url, flush=True)
    signal.pause()
