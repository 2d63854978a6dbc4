"""A payment service for a shop (docs/payments.md). Its bank is in memory: put the API of your provider in its place.

pip install standardwebhooks
WEBHOOK_SECRET=whsec_… APP_URL=https://shop.example PUBLIC_URL=https://pay.shop.example python3 service.py
"""

import html, json, os, threading, time, urllib.request, uuid
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
app_url, public_url = os.environ["APP_URL"], os.environ["PUBLIC_URL"]
lock = threading.Lock()
answers, sessions, refunds = {}, {}, {}  # In production: tables of a database.


def open_session(data):
    session = "s_" + uuid.uuid4().hex
    sessions[session] = {**data, "session": session, "status": "open"}
    return {"session": session, "url": f"{public_url}/pay/{session}"}


def close_session(data):
    session = sessions[data["session"]]
    if session["status"] == "open":
        session["status"] = "closed"
    return {name: session[name] for name in ("status", "payment", "amount", "currency") if name in session}


def create_refund(data):
    # Those that the app asked for. Parts that the shop refunds by itself are no answer to it.
    asked = (data["payment"], data.get("part"))  # Each part that the app asks for is a refund of its own.
    made = {asked: refund for refund, (asked, state) in refunds.items() if state != "failed"}
    if asked in made:
        return get_refund({"refund": made[asked]})
    refund = "re_" + uuid.uuid4().hex
    refunds[refund] = (asked, "succeeded")  # A real bank takes longer.
    notify("refund.succeeded", {**data, "refund": refund})
    return {"refund": refund, "status": "pending"}


def get_refund(data):
    return {"refund": data["refund"], "status": refunds[data["refund"]][1]}


CALLS = {"session.open": open_session, "session.close": close_session,
         "refund.create": create_refund, "refund.get": get_refund}


def notify(kind, data):
    """Sends a callback in the background, under one id, until the app accepts it."""
    def send():
        for attempt in range(10):
            now = datetime.now(tz=timezone.utc)
            headers = {"content-type": "application/json", "webhook-id": message_id,
                       "webhook-timestamp": str(int(now.timestamp())),
                       "webhook-signature": webhook.sign(message_id, now, body)}
            try:
                request = urllib.request.Request(app_url + "/api/payments/webhook", body.encode(), headers)
                return urllib.request.urlopen(request, timeout=15).close()
            except OSError:
                time.sleep(2 ** attempt)

    message_id, timestamp = "evt_" + uuid.uuid4().hex, datetime.now(tz=timezone.utc).isoformat()
    body = json.dumps({"type": kind, "timestamp": timestamp, "data": data})
    threading.Thread(target=send, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path.startswith("/pay/"):
            return self.pay(self.path.removeprefix("/pay/"))
        try:
            call = webhook.verify(body, {name.lower(): value for name, value in self.headers.items()})
            with lock:  # A call that is repeated gets the first answer.
                if self.headers["webhook-id"] not in answers:
                    answers[self.headers["webhook-id"]] = CALLS[call["type"]](call["data"])
            return self.reply(200, json.dumps(answers[self.headers["webhook-id"]]), "application/json")
        except WebhookVerificationError:
            return self.reply(401)
        except KeyError:  # An unknown type, session or refund.
            return self.reply(404)

    def do_GET(self):
        session = sessions.get(self.path.removeprefix("/pay/"), {})
        text = html.escape("{} {} {} (in minor units)".format(*map(session.get, ("name", "amount", "currency"))))
        self.reply(200, f"<form method=post>{text} <button>Pay</button></form>", "text/html")

    def pay(self, name):
        with lock:
            session = sessions.get(name, {"status": "unknown"})
            if session["status"] != "open":
                return self.reply(409, "This payment is " + session["status"])
            session.update(status="paid", payment="pay_" + uuid.uuid4().hex)
        notify("payment.succeeded", session)
        self.reply(303, headers={"location": session["return_url"]})

    def reply(self, status, text="", kind="text/plain", headers={}):
        self.send_response(status)
        for name, value in {**headers, "content-type": kind, "content-length": str(len(text.encode()))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "4000"))), Handler).serve_forever()
