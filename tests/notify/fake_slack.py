"""A small Slack: takes messages as the real one does, and is as strict about them; sends back what people click."""
import hashlib
import hmac
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from notice_case import HANG_S, Receiver


class Bad(Exception):
    pass


def expect(holds, what):
    if not holds:
        raise Bad(what)


def check_text(text, limit, kinds=("plain_text", "mrkdwn")):
    expect(text["type"] in kinds, f"a text of type {text['type']}")
    expect(1 <= len(text["text"]) <= limit, f"a text of {len(text['text'])} characters where {limit} may be")


def check_blocks(blocks, limit=50):
    """The limits that Slack has beyond its types."""
    expect(1 <= len(blocks) <= limit, f"{len(blocks)} blocks")
    ids = [block["block_id"] for block in blocks if "block_id" in block]
    expect(len(set(ids)) == len(ids), "two blocks with one id")
    for block in blocks:
        kind = block["type"]
        expect(len(block.get("block_id", "")) <= 255, "a long block_id")
        if kind == "header":
            check_text(block["text"], 150, ("plain_text",))
        elif kind == "section":
            expect("text" in block or "fields" in block, "an empty section")
            if "text" in block:
                check_text(block["text"], 3000)
            expect(len(block.get("fields", [])) <= 10, "more than 10 fields")
            for field in block.get("fields", []):
                check_text(field, 2000)
        elif kind == "context":
            expect(1 <= len(block["elements"]) <= 10, "a context of too many")
            for element in block["elements"]:
                check_text(element, 3000)
        elif kind == "rich_text":
            for part in block["elements"]:
                expect(part["type"] in ("rich_text_quote", "rich_text_preformatted", "rich_text_section"), part["type"])
                for element in part["elements"]:
                    expect(element["type"] == "text" and 1 <= len(element["text"]) <= 3000, "a rich text")
        elif kind == "actions":
            expect(1 <= len(block["elements"]) <= 25, "too many buttons")
            for button in block["elements"]:
                check_button(button)
        elif kind == "input":
            check_text(block["label"], 2000, ("plain_text",))
        else:
            raise Bad(f"a block of type {kind}")


def check_button(button):
    check_text(button["text"], 75, ("plain_text",))
    expect(len(button["action_id"]) <= 255 and len(button["value"]) <= 2000, "a long button")
    expect(button.get("style") in (None, "primary", "danger"), "a style")
    if "confirm" in button:
        check_text(button["confirm"]["title"], 100, ("plain_text",))
        check_text(button["confirm"]["text"], 300)
        check_text(button["confirm"]["confirm"], 30, ("plain_text",))
        check_text(button["confirm"]["deny"], 30, ("plain_text",))


class FakeSlack:
    def __init__(self, token, signing_secret, team="T0TEAM", channel="C0OPS"):
        self.token, self.secret, self.team, self.channel = token, signing_secret, team, channel
        self.messages = {}    # by ts, as they are now
        self.history = []     # (method, body) as they came
        self.views = []
        self.told = []        # what was said through response_url
        self.problems = []
        self.refusals = []    # answers to give before the next message is taken
        self.at = []          # when messages were taken
        self.updating = threading.Event()  # cleared: a changed card is not answered
        self.updating.set()
        self.receiver = Receiver(self.answer)
        self.close = self.receiver.close

    @property
    def api_base(self):
        return self.receiver.url + "/api"

    def answer(self, request):
        body = json.loads(request["body"])
        if request["path"].startswith("/response/"):
            self.told.append(body)
            return 200, {}, "ok"
        method = request["path"].removeprefix("/api/")
        self.history.append((method, body))
        if request["headers"].get("authorization") != "Bearer " + self.token:
            return self.say({"ok": False, "error": "invalid_auth"})
        if self.refusals and method.startswith("chat."):
            return self.refusals.pop(0)
        try:
            return self.say(getattr(self, method.replace(".", "_"))(body))
        except (Bad, KeyError, TypeError) as bad:
            self.problems.append(f"{method}: {bad!r}")
            return self.say({"ok": False, "error": "invalid_blocks"})

    @staticmethod
    def say(body):
        return 200, {"Content-Type": "application/json; charset=utf-8"}, json.dumps(body)

    def take(self, body):
        expect(body["channel"] == self.channel, "another channel")
        expect(1 <= len(body["text"]) <= 4000, "the fallback")
        check_blocks(body["blocks"])
        self.at.append(time.monotonic())

    def chat_postMessage(self, body):
        self.take(body)
        ts = f"1731715200.{len(self.messages):06}"
        self.messages[ts] = body
        return {"ok": True, "channel": self.channel, "ts": ts, "message": body}

    def chat_update(self, body):
        self.updating.wait(HANG_S)
        self.take(body)
        expect(body["ts"] in self.messages, "no such message")
        self.messages[body["ts"]] = body
        return {"ok": True, "channel": self.channel, "ts": body["ts"], "text": body["text"]}

    def conversations_history(self, body):
        return {"ok": True, "messages": [{"ts": ts, **message} for ts, message in self.messages.items()]}

    def views_open(self, body):
        view = body["view"]
        expect(body["trigger_id"], "no trigger")
        for key in ("title", "submit", "close"):
            check_text(view[key], 24, ("plain_text",))
        expect(len(view["private_metadata"]) <= 3000 and len(view["callback_id"]) <= 255, "a long view")
        check_blocks(view["blocks"], 100)
        self.views.append(view)
        return {"ok": True, "view": {"id": "V1"}}

    # What people do.

    def cards(self):
        return list(self.messages.values())

    @staticmethod
    def buttons(card):
        return {button["action_id"]: button for block in card["blocks"] if block["type"] == "actions"
                for button in block["elements"]}

    def click(self, card, action, user):
        button = self.buttons(card)[action]
        return {"type": "block_actions", "api_app_id": "A1", "trigger_id": "12.34.abc",
                "response_url": self.receiver.url + "/response/1", "team": {"id": self.team, "domain": "acme"},
                "user": {"id": user, "username": user.lower(), "team_id": self.team}, "channel": {"id": self.channel},
                "actions": [{"type": "button", "action_id": action, "block_id": "x", "action_ts": "1",
                             "value": button["value"]}]}

    def submission(self, view, reason, user):
        return {"type": "view_submission", "team": {"id": self.team}, "user": {"id": user, "team_id": self.team},
                "view": {"id": "V1", "callback_id": view["callback_id"], "private_metadata": view["private_metadata"],
                         "state": {"values": {"reason": {"text": {"type": "plain_text_input", "value": reason}}}}}}

    def signed(self, payload, at=None, secret=None):
        body = ("payload=" + urllib.parse.quote_plus(json.dumps(payload))).encode()
        timestamp = str(int(time.time() if at is None else at))
        digest = hmac.new((secret or self.secret).encode(), b"v0:" + timestamp.encode() + b":" + body, hashlib.sha256)
        return body, {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": "v0=" + digest.hexdigest(),
                      "Content-Type": "application/x-www-form-urlencoded"}

    def send(self, url, payload, tenant=None, **how):
        return send_raw(url, *self.signed(payload, **how), tenant=tenant)


def send_raw(url, body, headers, tenant=None):
    path = "/slack/actions" + (f"?tenant={tenant}" if tenant else "")
    request = urllib.request.Request(url + path, method="POST", data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
