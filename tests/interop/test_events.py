"""Outgoing events, verified by the official library from PyPI as a shop would (E7)."""

import threading
import unittest
import uuid
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from app import call, eventually, variable


class Shop(BaseHTTPRequestHandler):
    """The shop's events endpoint. Records every event."""

    received = []

    def do_POST(self):
        """Records an event and returns 204."""
        body = self.rfile.read(int(self.headers["content-length"]))
        self.received.append((dict(self.headers.items()), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        """Suppresses the log of requests."""


def call_admin(method, path, body=None):
    """Calls a route below `/api/admin` with the operator's token."""
    return call(method, "/api/admin" + path, body, variable("ADMIN_TOKEN"))


def buy():
    """Publishes an activity and places an order. Returns the order number."""
    activity = "sale-" + uuid.uuid4().hex[:8]
    now = datetime.now(tz=timezone.utc)
    times = [(now + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ") for minutes in (-1, 10)]
    skus = [{"sku": "item", "name": "Zoë's thing", "price": 1999, "currency": "EUR", "total": 5}]
    spec = {"title": "A sale", "starts_at": times[0], "ends_at": times[1], "pay_timeout_seconds": 300,
            "per_user": 1, "limits": {"user": None, "ip": None, "all": None}, "skus": skus}
    assert call_admin("PUT", "/activities/" + activity, spec)[0] == 200
    assert call_admin("POST", f"/activities/{activity}/publish", {})[0] == 200
    token = call("POST", "/sandbox/sign-in", {"user": "ada"})[1]["token"]
    key = eventually("the start", lambda: (call("GET", f"/api/activities/{activity}/gate.json")[1] or {}).get("start_key"))
    ticket = eventually("a ticket", lambda: call("POST", f"/api/activities/{activity}/ticket", {}, token)[1].get("ticket"))
    body = {"sku": "item", "quantity": 1, "ticket": ticket, "start_key": key}
    status, order = call("POST", f"/api/activities/{activity}/orders", body)
    assert status == 202, order
    return order["order_no"]


class Events(unittest.TestCase):
    """The events that the shop receives."""

    def test_the_official_library_accepts_the_events_sent_to_the_shop(self):
        server = ThreadingHTTPServer(("127.0.0.1", int(variable("PORT_EVENTS"))), Shop)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        call_admin("POST", "/events/enable", {})
        order = buy()

        def events_of_order():
            call("POST", "/api/tasks/sweep", {}, variable("CRON_TOKEN"))
            return [(headers, body) for headers, body in Shop.received if order.encode() in body]

        headers, body = eventually("an event", events_of_order)[0]
        headers = {name.lower(): value for name, value in headers.items()}
        event = Webhook(variable("EVENTS_SECRET")).verify(body, headers)
        self.assertEqual((event["type"], event["data"]["order_no"]), ("order.pending_payment", order))
        with self.assertRaises(WebhookVerificationError):
            Webhook(variable("EVENTS_SECRET")).verify(body.replace(b"1999", b"1"), headers)


if __name__ == "__main__":
    unittest.main()
