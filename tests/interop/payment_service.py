"""A shop whose payment service is examples/payments, behind a proxy that loses and repeats messages (E1 to E5; I6).

The official library of Standard Webhooks verifies all messages of both sides, and signs those of the tests.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
import unittest
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jwt
from standardwebhooks.webhooks import Webhook

from app import call, eventually, send, variable

SERVICE = Path(__file__).parents[2] / "examples/payments/service.py"
ADDRESS = {"name": "Ada", "line1": "1 Mill Lane", "city": "London", "postal_code": "N1", "country": "GB"}
SHOP_URL = "https://shop.example"
webhook = Webhook(variable("WEBHOOK_SECRETS").split()[0])


class Proxy(BaseHTTPRequestHandler):
    """Between the app and the service: verifies, records and forwards the messages of both."""

    protocol_version = "HTTP/1.1"
    service_port = 0
    calls = []
    faults = []
    """Faults of later messages, as (order, type, fault). A fault is `lose` (the answer), `repeat` (the message), a
    status in place of the answer, `refuse` (it is not forwarded), or a document that answers in place of the receiver."""

    def do_POST(self):
        """Handles one message."""
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        message = webhook.verify(body, headers)
        assert self.path != "/calls" or headers["idempotency-key"] == headers["webhook-id"], headers
        order, kind = message["data"]["order_no"], message["type"]
        found = next((fault for fault in self.faults if fault[:2] == (order, kind)), None)
        if found:
            self.faults.remove(found)
        fault = found[2] if found else None
        if isinstance(fault, dict):
            status, answer = 200, json.dumps(fault).encode()
        elif fault == "refuse":
            status, answer = 503, b""
        else:
            times = 2 if fault == "repeat" else 1
            with ThreadPoolExecutor() as pool:
                answers = list(pool.map(lambda _: self.forward(body, headers), range(times)))
            assert answers[0] == answers[-1], answers
            status, answer = answers[0]
        self.calls.append((order, kind, headers["webhook-id"], message["data"], json.loads(answer or b"null")))
        if fault == "lose":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.send_response(fault if isinstance(fault, int) else status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def forward(self, body, headers):
        """Sends the message to the service, or to the app. Returns the status and the body of its answer."""
        app = variable("URL").removeprefix("http://").rstrip("/")
        receiver = f"127.0.0.1:{self.service_port}" if self.path == "/calls" else app
        connection = http.client.HTTPConnection(receiver, timeout=10)
        connection.request("POST", self.path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()

    def log_message(self, *_):
        """Suppresses the log of requests."""


def calls_of(order, kind):
    """The calls of a type about an order, oldest first, as (id, data, answer)."""
    return [recorded[2:] for recorded in Proxy.calls if recorded[:2] == (order, kind)]


def call_admin(method, path, body=None):
    """Calls a route below `/api/admin`. Returns the document."""
    status, document = call(method, "/api/admin" + path, body, variable("ADMIN_TOKEN"))
    assert status < 300, (status, document)
    return document


def sweep():
    """Runs the sweeper."""
    return call("POST", "/api/tasks/sweep", {}, variable("CRON_TOKEN"))


def publish(**changes):
    """Publishes a sale, and returns its id."""
    activity = "sale-" + uuid.uuid4().hex[:8]
    now = datetime.now(tz=timezone.utc)
    times = [(now + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ") for minutes in (-1, 10)]
    skus = [{"sku": "item", "name": "Zoë's thing", "image": "/thing.png", "price": 1999, "currency": "EUR", "total": 5}]
    call_admin("PUT", f"/activities/{activity}", {
        "title": "A sale", "starts_at": times[0], "ends_at": times[1], "pay_timeout_seconds": 300, "per_user": 2,
        "limits": {"user": None, "ip": None, "all": None}, "skus": skus, **changes,
    })
    call_admin("POST", f"/activities/{activity}/publish", {})
    return activity


class Buyer:
    """A signed-in buyer with an order."""

    def __init__(self, activity, quantity=1):
        claims = {"sub": "buyer-" + uuid.uuid4().hex[:8], "exp": int(time.time()) + 3600,
                  "iss": variable("JWT_ISSUER"), "aud": variable("JWT_AUDIENCE")}
        self.token = jwt.encode(claims, variable("JWT_KEY").split()[0], algorithm="HS256")
        gate = lambda: (call("GET", f"/api/activities/{activity}/gate.json")[1] or {}).get("start_key")
        key = eventually("the start", gate)
        ticket = lambda: call("POST", f"/api/activities/{activity}/ticket", {}, self.token)[1].get("ticket")
        body = {"sku": "item", "quantity": quantity, "ticket": eventually("a ticket", ticket), "start_key": key}
        # For a second, an instance may still refuse a unit that was released.
        reserve = lambda: call("POST", f"/api/activities/{activity}/orders", body)[1].get("order_no")
        self.order = eventually("an order", reserve)
        self.wait_for("pending_payment")

    def checkout(self, language="de"):
        """Checks out. Returns the payment page's URL."""
        body = {"address": ADDRESS, "language": language}
        status, document = call("POST", f"/api/orders/{self.order}/checkout", body, self.token)
        assert status == 200, document
        return document["checkout_url"]

    def ask(self, action):
        """Cancels or refunds the order."""
        status, document = call("POST", f"/api/orders/{self.order}/{action}", {}, self.token)
        assert status < 300, document

    def wait_for(self, wanted):
        """Sweeps until the order has a status in the ledger, which buyers see later."""
        def probe():
            sweep()
            status, order = send("GET", f"/api/admin/orders/{self.order}", None, variable("ADMIN_TOKEN"))[::2]
            return status == 200 and json.loads(order)["status"] == wanted
        eventually(f"{self.order} {wanted}", probe)


def pay(url):
    """Presses the button of a payment page. Returns the status and where the buyer goes."""
    connection = http.client.HTTPConnection("127.0.0.1", Proxy.service_port, timeout=10)
    connection.request("POST", "/pay/" + url.rsplit("/", 1)[1], headers={"content-length": "0"})
    response = connection.getresponse()
    return response.status, response.headers.get("location")


def send_callback(kind, data, message_id=None):
    """Sends a callback with a signature of the official library. Returns the status."""
    message_id, now = message_id or "evt_" + uuid.uuid4().hex, datetime.now(tz=timezone.utc)
    body = json.dumps({"type": kind, "timestamp": now.isoformat(), "data": data})
    headers = {"webhook-id": message_id, "webhook-timestamp": str(int(now.timestamp())),
               "webhook-signature": webhook.sign(message_id, now, body)}
    return send("POST", "/api/payments/webhook", body.encode(), None, headers)[0]


class PaymentService(unittest.TestCase):
    """Payments by a service of the shop."""

    @classmethod
    def setUpClass(cls):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            Proxy.service_port = free.getsockname()[1]
        environment = {**os.environ, "PORT": str(Proxy.service_port), "APP_URL": "http://127.0.0.1:" + variable("PORT_PAYMENTS"),
                       "WEBHOOK_SECRET": variable("WEBHOOK_SECRETS").split()[0], "PUBLIC_URL": "https://pay.example"}
        service = subprocess.Popen([sys.executable, SERVICE], env=environment, stderr=subprocess.DEVNULL)
        proxy = ThreadingHTTPServer(("127.0.0.1", int(variable("PORT_PAYMENTS"))), Proxy)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        cls.addClassCleanup(proxy.server_close)
        cls.addClassCleanup(service.wait)
        cls.addClassCleanup(service.terminate)

        def listens():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", Proxy.service_port)) == 0
        eventually("the service", listens)

    def test_an_order_is_paid_and_refunded(self):
        buyer = Buyer(publish(), quantity=2)
        url = buyer.checkout()
        [(_, data, answer)] = calls_of(buyer.order, "session.open")
        self.assertEqual(answer["url"], url)
        order_url = f"{SHOP_URL}/order?order_no={buyer.order}"
        expected = {"order_no": buyer.order, "session_number": 1, "amount": 3998, "currency": "EUR", "sku": "item",
                    "quantity": 2, "name": "Zoë's thing", "image": SHOP_URL + "/thing.png", "language": "de",
                    "return_url": order_url + "&payment=done", "cancel_url": order_url}
        self.assertEqual({name: data[name] for name in expected}, expected)
        self.assertEqual(pay(url), (303, order_url + "&payment=done"))
        buyer.wait_for("paid")
        self.assertEqual(pay(url)[0], 409)
        buyer.ask("refund")
        buyer.wait_for("refunded")
        [(_, data, _)] = calls_of(buyer.order, "refund.create")
        self.assertEqual((data["amount"], data["currency"], data["failures"]), (3998, "EUR", 0))

    def test_lost_and_repeated_calls_open_one_payment(self):
        buyer = Buyer(publish())
        Proxy.faults += [(buyer.order, "session.open", fault) for fault in ("lose", 503, "repeat")]
        urls = {buyer.checkout()}
        with ThreadPoolExecutor() as pool:
            urls |= set(pool.map(lambda _: buyer.checkout("fr"), range(8)))
        calls = calls_of(buyer.order, "session.open")
        self.assertEqual((len(urls), len(calls)), (1, 3))
        self.assertEqual({message_id for message_id, _, _ in calls}, {f"open_{buyer.order.split('.')[1]}_1"})

    def test_while_the_service_is_silent_the_order_stays_reserved(self):
        buyer = Buyer(publish())
        Proxy.faults += [(buyer.order, "session.open", 500)] * 3
        body = {"address": ADDRESS}
        status, _, raw = send("POST", f"/api/orders/{buyer.order}/checkout", body, buyer.token)
        self.assertEqual((status, json.loads(raw)["code"]), (503, "not_ready"))
        buyer.wait_for("pending_payment")
        self.assertEqual(pay(buyer.checkout())[0], 303)
        buyer.wait_for("paid")

    def test_a_repeated_callback_counts_once_and_a_second_payment_is_refunded(self):
        buyer = Buyer(publish())
        session = buyer.checkout().rsplit("/", 1)[1]
        data = {"order_no": buyer.order, "session": session, "payment": "first", "amount": 1999, "currency": "EUR"}
        for message_id in ("evt-1", "evt-1", "evt-2"):
            self.assertEqual(send_callback("payment.succeeded", data, message_id + buyer.order), 204)
        buyer.wait_for("paid")
        self.assertEqual(send_callback("payment.succeeded", {**data, "payment": "second"}), 204)
        refunds = lambda: sweep() and calls_of(buyer.order, "refund.create")
        [(_, refund, _)] = eventually("the refund", refunds)
        self.assertEqual((refund["payment"], refund["amount"]), ("second", 1999))
        buyer.wait_for("paid")

    def test_an_unpaid_order_is_released_after_its_payment_was_closed(self):
        buyer = Buyer(publish(pay_timeout_seconds=10, pay_extension_seconds=0))
        url = buyer.checkout()
        buyer.wait_for("expired")
        self.assertEqual(calls_of(buyer.order, "session.close")[-1][2]["status"], "closed")
        self.assertEqual(pay(url)[0], 409)

    def test_a_payment_that_no_callback_reported_is_found_before_the_release(self):
        buyer = Buyer(publish(pay_timeout_seconds=10, pay_extension_seconds=0))
        buyer.checkout()
        paid = {"status": "paid", "payment": "found", "amount": 1999, "currency": "EUR"}
        Proxy.faults += [(buyer.order, "session.close", fault) for fault in ("lose", paid)]
        buyer.wait_for("paid")

    def test_a_late_payment_takes_a_free_unit_or_is_refunded(self):
        activity = publish(pay_timeout_seconds=10, pay_extension_seconds=0, skus=[
            {"sku": "item", "name": "The last one", "price": 1999, "currency": "EUR", "total": 1}])
        for expected in ("paid", "refunded"):
            late = Buyer(activity)
            url = late.checkout()
            # The service does not learn that the payment was closed.
            Proxy.faults.append((late.order, "session.close", {"status": "closed"}))
            late.wait_for("expired")
            if expected == "refunded":
                Buyer(activity)
            self.assertEqual(pay(url)[0], 303)
            late.wait_for(expected)
            self.assertEqual(len(calls_of(late.order, "refund.create")), int(expected == "refunded"))
            if expected == "paid":
                late.ask("refund")
                late.wait_for("refunded")

    def test_a_refund_whose_answer_is_lost_is_made_once(self):
        buyer = Buyer(publish())
        pay(buyer.checkout())
        buyer.wait_for("paid")
        Proxy.faults += [(buyer.order, "refund.create", fault) for fault in ("lose", "repeat")]
        Proxy.faults += [(buyer.order, "refund.succeeded", "refuse")] * 3
        Proxy.faults += [(buyer.order, "refund.succeeded", "repeat")]
        buyer.ask("refund")
        buyer.wait_for("refunded")
        calls = calls_of(buyer.order, "refund.create")
        self.assertEqual((len(calls), len({message_id for message_id, _, _ in calls})), (2, 1))
        self.assertEqual(len({answer["refund"] for _, _, answer in calls}), 1)

    def test_a_failed_refund_is_requested_again_and_shown_to_operators(self):
        buyer = Buyer(publish())
        pay(buyer.checkout())
        buyer.wait_for("paid")
        failed = {"refund": "re_1", "status": "failed", "reason": "the account is closed"}
        Proxy.faults.append((buyer.order, "refund.create", failed))
        buyer.ask("refund")
        mine = lambda: [refund for refund in call_admin("GET", "/refunds") if refund["order_no"] == buyer.order]
        eventually("the failure", lambda: sweep() and mine()[0]["failures"])
        [refund] = mine()
        known = {name: refund[name] for name in ("failures", "last_error", "provider", "state")}
        expected = {"failures": 1, "last_error": "the account is closed", "provider": "webhook", "state": "requested"}
        self.assertEqual(known, expected)
        # The service reports the same failure by a callback.
        payment = calls_of(buyer.order, "refund.create")[0][1]["payment"]
        data = {"order_no": buyer.order, "payment": payment, "refund": "re_1", "amount": 1999, "currency": "EUR"}
        self.assertEqual(send_callback("refund.failed", data), 204)
        self.assertEqual(mine()[0]["failures"], 1)
        self.assertEqual(send_callback("refund.succeeded", {**data, "refund": "re_2"}), 204)
        buyer.wait_for("refunded")

    def test_after_a_payment_that_ended_early_the_next_checkout_opens_another_one(self):
        buyer = Buyer(publish())
        first = buyer.checkout()
        ended = {"order_no": buyer.order, "session": first.rsplit("/", 1)[1]}
        self.assertEqual(send_callback("session.ended", ended), 204)
        second = buyer.checkout()
        self.assertNotEqual(first, second)
        self.assertEqual(send_callback("session.ended", ended), 204)
        self.assertEqual(buyer.checkout(), second)
        self.assertEqual([data["session_number"] for _, data, _ in calls_of(buyer.order, "session.open")], [1, 2])

    def test_callbacks_of_other_providers_have_no_route_and_unsigned_ones_no_effect(self):
        buyer = Buyer(publish())
        buyer.checkout()
        self.assertEqual(send("POST", "/api/payments/stripe", b"{}")[0], 404)
        self.assertEqual(send("POST", "/api/payments/webhook", b"{}")[0], 401)
        self.assertEqual(send("POST", "/sandbox/payments", b"{}")[0], 404)
