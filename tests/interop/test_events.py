"""Events out, verified by the official library of PyPI as a shop would (E7)."""

import threading
import unittest
import uuid
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from app import ask, eventually, variable


class Shop(BaseHTTPRequestHandler):
    """The shop's endpoint."""

    seen = []

    def do_POST(self):
        """Takes an event."""
        body = self.rfile.read(int(self.headers["content-length"]))
        self.seen.append((dict(self.headers.items()), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        """Says nothing."""


def operate(method, path, body=None):
    """A call of an operator."""
    return ask(method, "/api/admin" + path, body, variable("ADMIN_TOKEN"))


def buy():
    """An order that waits for payment."""
    sale = "sale-" + uuid.uuid4().hex[:8]
    now = datetime.now(tz=timezone.utc)
    times = [(now + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ") for minutes in (-1, 10)]
    skus = [{"sku": "item", "name": "Zoë's thing", "price": 1999, "currency": "EUR", "total": 5}]
    spec = {"title": "A sale", "starts_at": times[0], "ends_at": times[1], "pay_timeout_seconds": 300,
            "per_user": 1, "limits": {"user": None, "ip": None, "all": None}, "skus": skus}
    assert operate("PUT", "/activities/" + sale, spec)[0] == 200
    assert operate("POST", f"/activities/{sale}/publish", {})[0] == 200
    token = ask("POST", "/sandbox/sign-in", {"user": "ada"})[1]["token"]
    key = eventually("the start", lambda: (ask("GET", f"/api/activities/{sale}/gate.json")[1] or {}).get("start_key"))
    ticket = eventually("a ticket", lambda: ask("POST", f"/api/activities/{sale}/ticket", {}, token)[1].get("ticket"))
    body = {"sku": "item", "quantity": 1, "ticket": ticket, "start_key": key}
    status, order = ask("POST", f"/api/activities/{sale}/orders", body)
    assert status == 202, order
    return order["order_no"]


class Events(unittest.TestCase):
    """What the shop is told."""

    def test_the_official_library_accepts_what_the_shop_is_told(self):
        server = ThreadingHTTPServer(("127.0.0.1", int(variable("PORT_EVENTS"))), Shop)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        operate("POST", "/events/enable", {})
        order = buy()

        def told():
            ask("POST", "/api/tasks/sweep", {}, variable("CRON_TOKEN"))
            return [(headers, body) for headers, body in Shop.seen if order.encode() in body]

        headers, body = eventually("an event", told)[0]
        headers = {name.lower(): value for name, value in headers.items()}
        event = Webhook(variable("EVENTS_SECRET")).verify(body, headers)
        self.assertEqual((event["type"], event["data"]["order_no"]), ("order.pending_payment", order))
        with self.assertRaises(WebhookVerificationError):
            Webhook(variable("EVENTS_SECRET")).verify(body.replace(b"1999", b"1"), headers)


if __name__ == "__main__":
    unittest.main()
