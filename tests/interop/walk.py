"""Calls every route during a whole sale and checks each response against the OpenAPI document.

Needs a running app that uses the sandbox for payments.
"""

import hashlib
import hmac
import json
import subprocess
import threading
import time
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from app import eventually, send, variable
from contract import Contract, load
from standardwebhooks.webhooks import Webhook

ADMIN, CRON, METRICS = variable("ADMIN_TOKEN"), variable("CRON_TOKEN"), variable("METRICS_TOKEN")
ULIDS = [f"01JZ8Q4M7T3V9X2C5B6N0K1R8{last}" for last in "0123456789"]


class Caller:
    """Sends requests and checks every response against the OpenAPI document."""

    def __init__(self):
        self.contract = Contract(load())

    def send_checked(self, method, path, body=None, token=None, headers=None):
        """Sends a request once and checks the response. Returns the status, the content and the headers."""
        status, given, raw = send(method, path, body, token, headers)
        given = {name.lower(): value for name, value in given.items()}
        return status, self.contract.check_response(method, path, body, status, given, raw), given

    def call(self, method, path, body=None, token=None, headers=None, expect=200):
        """Asserts the status, or status and code, of a response. Retries `503 not_ready`. Returns the content."""
        deadline = time.monotonic() + 30
        while True:
            status, document, given = self.send_checked(method, path, body, token, headers)
            seen = f"{status} {document['code']}" if status >= 400 else status
            if seen == expect:
                return document
            wait = int(given.get("retry-after", 0)) if seen == "503 not_ready" else 0
            assert wait and time.monotonic() + wait < deadline, f"{method} {path}: {seen}, not {expect}: {document}"
            time.sleep(wait)

    def call_admin(self, method, path, body=None, expect=200):
        """As `call`, below `/api/admin` with the operator's token."""
        return self.call(method, "/api/admin" + path, body, ADMIN, expect=expect)

    def call_until(self, what, expect, *request, **more):
        """Repeats a request until it has this status, or this status and code: caches are up to a second old."""

        def answer():
            status, document, _ = self.send_checked(*request, **more)
            return (f"{status} {document['code']}" if status >= 400 else status) == expect and (document or True)

        return eventually(what, answer)


class Shop(BaseHTTPRequestHandler):
    """The shop's events endpoint. Records every event."""

    events = []

    def do_POST(self):
        """Records an event and returns 204."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.events.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        """Suppresses the log of requests."""


def spec(opens=-1, ends=10, **changes):
    """Returns the description of an activity. `opens` and `ends` are in minutes from now."""
    now = datetime.now(tz=timezone.utc)
    at = lambda minutes: (now + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    sku = lambda sku, total: {"sku": sku, "name": f"The {sku}", "price": 1999, "currency": "EUR", "total": total}
    valid = {"title": "A sale", "starts_at": at(opens), "ends_at": at(ends), "per_user": 3,
            "limits": {"user": {"count": 1000, "seconds": 1}, "ip": None},
            "skus": [sku("item", 10), sku("rare", 1), sku("file", -1)]}
    return {**valid, **changes}


def walk(caller):
    """Runs all parts in order."""
    create_activities(caller)
    public_reads(caller)
    challenges_and_tickets(caller)
    orders = place_orders(caller)
    read_orders(caller, orders)
    pay_cancel_refund(caller, orders)
    statistics_and_events(caller, orders)
    dead_letters(caller)
    payment_callbacks(caller)
    bans_and_strikes(caller)
    state_changes(caller)
    probes(caller)
    methods_not_allowed(caller)


def create_activities(caller):
    """Creates, changes and publishes activities, and restocks."""
    caller.call_admin("PUT", "/activities/main", spec(title="A draft"))
    caller.call_admin("PUT", "/activities/main", spec())
    others = {"soon": spec(60, 70), "pow": spec(human_check="pow"), "captcha": spec(human_check="captcha"),
              "few": spec(limits={"user": {"count": 1, "seconds": 60}}), "members": spec(eligibility={"members_only": True})}
    for name, body in others.items():
        caller.call_admin("PUT", "/activities/" + name, body)
    for name in ["main", *others]:
        caller.call_admin("POST", f"/activities/{name}/publish")
    caller.call_admin("PUT", "/activities/mistake", spec())
    caller.call_admin("DELETE", "/activities/mistake", expect=204)
    caller.call_admin("DELETE", "/activities/mistake", expect="404 not_found")
    caller.call_admin("DELETE", "/activities/main", expect="409 state_conflict")
    caller.call_admin("PUT", "/activities/draft", spec())
    for wrong in [b"{", b"[]", b"7", {}, spec(title=1), spec(per_user=0), spec(1, -1), spec(skus=[])]:
        caller.call_admin("PUT", "/activities/main", wrong, expect="400 invalid_request")
    caller.call_admin("PUT", "/activities/UPPER", spec(), expect="400 invalid_request")
    caller.call_admin("PUT", "/activities/main", spec(description="x" * 17_000), expect="413 payload_too_large")
    caller.call_admin("PUT", "/activities/main", spec(skus=spec()["skus"][:1]), expect="409 state_conflict")
    assert len(caller.call_admin("GET", "/activities")) == 7
    assert caller.call_admin("GET", "/activities/main")["state"] == "published"
    caller.call_admin("GET", "/activities/none", expect="404 not_found")
    caller.call_admin("POST", "/activities/main/skus/item/restock", {"by": 5})
    caller.call_admin("POST", "/activities/main/skus/item/restock", {"by": 0}, expect="400 invalid_request")
    caller.call_admin("POST", "/activities/main/skus/file/restock", {"by": 5}, expect="409 state_conflict")
    caller.call_admin("POST", "/activities/main/skus/none/restock", {"by": 5}, expect="404 not_found")
    caller.call("GET", "/api/admin/activities", expect="401 unauthenticated")
    caller.call("PUT", "/api/admin/shed", {"on": True}, CRON, expect="401 unauthenticated")


def public_reads(caller):
    """Reads the routes that need no token."""
    eventually("six sales", lambda: len(caller.call("GET", "/api/activities")) == 6)
    assert len(caller.call("GET", "/api/activities/main")["skus"]) == 3
    assert caller.call("GET", "/api/activities/main/gate.json")["start_key"]
    assert "start_key" not in caller.call("GET", "/api/activities/soon/gate.json")
    script = caller.call("GET", "/api/activities/main/gate.js")
    assert json.loads(script.removeprefix("globalThis.stampedeGate = ").rstrip(";\n"))["phase"] == "open"
    for path in ["/api/activities/draft", "/api/activities/none/gate.json", "/api/activities/none/gate.js"]:
        caller.call("GET", path, expect="404 not_found")


def sign_in(caller, user, **claims):
    """Returns a token from the sandbox, which is not part of the document."""
    status, _, raw = send("POST", "/sandbox/sign-in", {"user": user, **claims})
    assert status == 200, raw
    return json.loads(raw)["token"]


def challenges_and_tickets(caller):
    """Requests challenges and tickets, with the refusals of both."""
    ada = sign_in(caller, "ada")
    call = lambda activity, what, body, expect, token=ada: caller.call_until(
        f"{what} of {activity}", expect, "POST", f"/api/activities/{activity}/{what}", body, token)
    for version in [None, 2]:
        call("pow", "challenge", {"altcha": version}, 200)
    for kind in [None, "slider", "sum"]:
        call("captcha", "challenge", {"captcha": kind}, 200)
    call("pow", "challenge", {"altcha": 1}, "400 invalid_request")
    call("main", "challenge", None, "404 not_found")
    call("none", "challenge", None, "404 not_found")
    call("pow", "challenge", None, "401 unauthenticated", None)
    call("soon", "challenge", None, "403 not_open")
    call("main", "ticket", None, 201)
    call("main", "ticket", b"{", "400 invalid_request")
    call("main", "ticket", {}, "401 unauthenticated", "x")
    call("pow", "ticket", {}, "403 human_check_required")
    call("pow", "ticket", {"altcha": "x"}, "403 human_check_failed")
    call("captcha", "ticket", {"captcha": {"id": "slider.x", "answer": 7, "track": [[1, 2]]}}, "403 human_check_failed")
    call("members", "ticket", {}, "403 not_eligible")
    call("soon", "ticket", {}, "403 not_open")
    call("few", "ticket", {}, 201)
    call("few", "ticket", {}, "429 rate_limited")
    call("main", "ticket", {"altcha": "x" * 17_000}, "413 payload_too_large")


def ticket(caller, activity, token):
    """Returns a ticket for an activity."""
    return caller.call("POST", f"/api/activities/{activity}/ticket", {}, token, expect=201)["ticket"]


def place_orders(caller):
    """Places three orders, and provokes refusals. Returns `(order number, ticket)` by the order's later status."""
    ada = sign_in(caller, "ada")
    key = caller.call("GET", "/api/activities/main/gate.json")["start_key"]
    body = lambda **changes: {"sku": "item", "quantity": 1, "start_key": key, **changes}
    reserve = lambda expect, **changes: caller.call("POST", "/api/activities/main/orders", body(**changes), expect=expect)
    orders = {}
    for outcome, sku in [("refunded", "item"), ("cancelled", "item"), ("paid", "rare")]:
        own_ticket = ticket(caller, "main", ada)
        orders[outcome] = (reserve(202, sku=sku, ticket=own_ticket)["order_no"], own_ticket)
    assert reserve(202, sku="rare", ticket=orders["paid"][1])["order_no"] == orders["paid"][0]
    reserve("422 ticket_conflict", quantity=2, ticket=orders["paid"][1])
    fresh = ticket(caller, "main", ada)
    reserve("409 limit_reached", quantity=3, ticket=fresh)
    reserve("409 sold_out", sku="rare", ticket=ticket(caller, "main", sign_in(caller, "bob")))
    reserve("404 not_found", sku="none", ticket=fresh)
    reserve("403 start_key_invalid", ticket=fresh, start_key="x")
    reserve("401 ticket_invalid", ticket="1.x")
    for wrong in [{"ticket": fresh, "quantity": 0}, {"ticket": fresh, "quantity": "1"}, {"ticket": fresh, "sku": ""}, {"ticket": None}]:
        reserve("400 invalid_request", **wrong)
    reserve("413 payload_too_large", ticket="x" * 17_000)
    caller.call("POST", "/api/activities/none/orders", body(ticket=fresh), expect="401 ticket_invalid")
    caller.call("POST", "/api/activities/UPPER/orders", body(ticket=fresh), expect="404 not_found")
    limited_ticket, limited_key = ticket_with_low_limit(caller)
    limited_body = body(ticket=limited_ticket, start_key=limited_key)
    caller.call_until("a limit", "429 rate_limited", "POST", "/api/activities/few/orders", limited_body)
    return orders


def ticket_with_low_limit(caller):
    """Returns a ticket for the activity with the low limit, and its start key."""
    key = caller.call("GET", "/api/activities/few/gate.json")["start_key"]
    return ticket(caller, "few", sign_in(caller, "cleo")), key


def read_orders(caller, orders):
    """Reads orders with the credentials of their owner, and with others, which are refused."""
    ada, (order_no, own_ticket) = sign_in(caller, "ada"), orders["paid"]
    path = "/api/orders/" + order_no

    def are_all_written():
        # The doorbell may ring before the order writer subscribes: the sweep drains the stream as well.
        caller.call("POST", "/api/tasks/sweep", token=CRON)
        statuses = [caller.call("GET", "/api/orders/" + no, token=ticket)["status"] for no, ticket in orders.values()]
        return all(status == "pending_payment" for status in statuses)

    eventually("the order writer", are_all_written)
    caller.call("GET", path, token=ada)
    _, _, headers = caller.send_checked("GET", path, token=own_ticket)
    caller.call("GET", path, token=own_ticket, headers={"if-none-match": headers["etag"]}, expect=304)
    caller.call("GET", path, expect="401 unauthenticated")
    caller.call("GET", path, token="1.x", expect="401 ticket_invalid")
    caller.call("GET", path, token=orders["cancelled"][1], expect="404 not_found")
    caller.call("GET", path, token=sign_in(caller, "bob"), expect="404 not_found")
    assert [order["order_no"] for order in caller.call("GET", "/api/orders", token=ada)][0] == order_no
    assert len(caller.call("GET", f"/api/orders?limit=1&before={order_no}", token=ada)) == 1
    for query in ["limit=0", "limit=101", "limit=x", "before=x"]:
        caller.call("GET", "/api/orders?" + query, token=ada, expect="400 invalid_request")
    caller.call("GET", "/api/orders", expect="401 unauthenticated")


def pay_cancel_refund(caller, orders):
    """Pays, cancels and refunds orders."""
    ada = sign_in(caller, "ada")
    at = lambda outcome, what: f"/api/orders/{orders[outcome][0]}/{what}"
    post = lambda outcome, what, expect, body=None, token=ada: caller.call(
        "POST", at(outcome, what), body, token, expect=expect)
    status = lambda outcome: caller.call("GET", "/api/orders/" + orders[outcome][0], token=orders[outcome][1])["status"]
    address = {"address": {"name": "Ada", "line1": "1 Mill Lane"}}
    for wrong in [b"{", {}, {"address": 1}, {"address": {"name": 1}}, {"address": {"name": "x" * 201}}]:
        post("paid", "checkout", "400 invalid_request", wrong)
    post("paid", "checkout", "401 unauthenticated", address, None)
    post("paid", "checkout", "404 not_found", address, sign_in(caller, "bob"))
    post("paid", "refund", "409 state_conflict")
    for outcome in ["paid", "refunded"]:
        url = post(outcome, "checkout", 200, address)["checkout_url"]
        caller.call("GET", "/api/orders/" + orders[outcome][0], token=orders[outcome][1])
        assert send("POST", url, {"outcome": "paid"})[0] == 200
        eventually("the payment", lambda: status(outcome) == "paid")
    post("cancelled", "cancel", 200)
    post("cancelled", "checkout", "409 state_conflict", address)
    post("paid", "cancel", "409 state_conflict")
    post("refunded", "refund", 202)
    assert caller.call_admin("GET", "/refunds")[0]["order_no"] == orders["refunded"][0]
    caller.call("POST", "/api/tasks/sweep", expect="401 unauthenticated")

    def refunded():
        assert "swept" in caller.call("POST", "/api/tasks/sweep", token=CRON)
        return status("refunded") == "refunded"

    eventually("the refund", refunded)


def statistics_and_events(caller, orders):
    """Reads statistics, audit and orders as an operator, and checks the events that the shop received."""
    stats = caller.call_admin("GET", "/activities/main/stats")
    assert stats["orders"] == {"paid": 1, "cancelled": 1, "refunded": 1}, stats
    assert caller.call_admin("GET", "/activities/main/audit")["ok"]
    exported = caller.call_admin("GET", "/activities/main/orders?limit=2")
    assert len(exported) == 2, exported
    caller.call_admin("GET", "/activities/none/orders", expect="404 not_found")
    for what in ["stats", "audit"]:
        caller.call_admin("GET", f"/activities/none/{what}", expect="404 not_found")
    order = caller.call_admin("GET", "/orders/" + orders["refunded"][0])
    assert order["address"]["name"] == "Ada" and order["callbacks"] and order["refunds"] and order["events"], order
    caller.call_admin("GET", f"/orders/main.{ULIDS[9]}", expect="404 not_found")

    def all_events_arrived():
        caller.call("POST", "/api/tasks/sweep", token=CRON)
        return {body["type"] for _, body in Shop.events} >= {
            "order." + status for status in ["pending_payment", "paid", "cancelled", "refunding", "refunded"]}

    eventually("events of every kind", all_events_arrived)
    for headers, body in Shop.events:
        location = ("webhooks", body["type"], "post")
        for index, parameter in enumerate(caller.contract.document["webhooks"][body["type"]]["post"]["parameters"]):
            parameter_location, parameter = caller.contract.resolve(location + ("parameters", str(index)), parameter)
            name = parameter["name"]
            caller.contract.validate(headers[name], parameter_location + ("schema",), name, closed=True)
        content = location + ("requestBody", "content", "application/json", "schema")
        caller.contract.validate(body, content, f"the event {body['type']}", closed=True)
    caller.call_admin("GET", "/events")
    assert caller.call_admin("POST", "/events/replay", {"order_no": orders["paid"][0]}, expect=202)["replayed"] == 2
    caller.call_admin("POST", "/events/replay", expect=202)
    caller.call_admin("POST", "/events/replay", {"order_no": "x"}, expect="400 invalid_request")
    caller.call_admin("POST", "/events/enable")


def dead_letters(caller):
    """Adds a message of an old epoch, which becomes a dead letter, and replays it."""
    order_no, now = f"main.{ULIDS[0]}", int(time.time() * 1000)
    message = "\t".join([ULIDS[0], "dora", "item", "1", "1999", "EUR", str(now), "0"])
    command = ["redis-cli", "-u", variable("REDIS_URL"), "XADD", "{main}:orders", "*", "o", message]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def sweep_and_list():
        caller.call("POST", "/api/tasks/sweep", token=CRON)
        return caller.call_admin("GET", "/dead-letters")

    assert eventually("a dead letter", sweep_and_list)[0]["order_no"] == order_no
    caller.call_admin("POST", f"/dead-letters/{order_no}/replay", expect=202)
    caller.call_admin("POST", f"/dead-letters/{order_no}/replay", expect="409 state_conflict")
    caller.call_admin("POST", f"/dead-letters/main.{ULIDS[9]}/replay", expect="404 not_found")


def payment_callbacks(caller):
    """Sends payment callbacks, and replays, refunds and dismisses those that are held."""

    def send_callback(name, body, expect, secret=variable("WEBHOOK_SECRETS").split(" ")[0]):
        now, payload = datetime.now(tz=timezone.utc), body if isinstance(body, bytes) else json.dumps(body).encode()
        signature = Webhook(secret).sign(name, now, payload.decode())
        headers = {"webhook-id": name, "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature}
        caller.call("POST", "/api/payments/webhook", payload if isinstance(body, bytes) else body, headers=headers, expect=expect)

    def paid(payment):
        data = {"order_no": f"main.{ULIDS[8]}", "session": "s", "payment": payment, "amount": 1, "currency": "EUR"}
        return {"type": "payment.succeeded", "timestamp": "2026-01-01T00:00:00Z", "data": data}

    for name, payment in [("evt_a", "pay_a"), ("evt_b", "pay_b"), ("evt_c", "")]:
        send_callback(name, paid(payment), 204)
    send_callback("evt_a", paid("pay_a"), 204)
    send_callback("evt_d", {"type": "customer.created", "data": {}}, 204)
    send_callback("evt_e", b"{", "400 invalid_request")
    send_callback("evt_e", {"type": "payment.succeeded", "data": {}}, "400 invalid_request")
    send_callback("evt_e", paid("pay_e"), "401 signature_invalid", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
    caller.call("POST", "/api/payments/webhook", b"x" * 17_000, expect="413 payload_too_large")
    assert {held["id"] for held in caller.call_admin("GET", "/callbacks")} == {"evt_a", "evt_b", "evt_c"}
    assert caller.call_admin("POST", "/callbacks/evt_a/replay")["outcome"] == "held"
    caller.call_admin("POST", "/callbacks/evt_a/refund")
    caller.call_admin("POST", "/callbacks/evt_b/dismiss")
    caller.call_admin("POST", "/callbacks/evt_c/refund", expect="409 state_conflict")
    for what in ["replay", "refund", "dismiss"]:
        caller.call_admin("POST", f"/callbacks/evt_b/{what}", expect="404 not_found")
    body = {"id": "evt_s", "type": "customer.created", "data": {"object": {}}}
    at = str(int(time.time()))
    secret = variable("STRIPE_SECRET").split(" ")[0].encode()
    signature = hmac.new(secret, f"{at}.{json.dumps(body)}".encode(), hashlib.sha256).hexdigest()
    stripe = lambda value, expect: caller.call(
        "POST", "/api/payments/stripe", body, headers={"stripe-signature": value}, expect=expect)
    stripe(f"t={at},v1={signature}", 204)
    stripe(f"t={at},v1=00", "404 not_found")


def bans_and_strikes(caller):
    """Sets and lifts bans, and reads and clears strikes."""
    for path in ["/bans/user/eve%40example.com", "/bans/ip/203.0.113.7", "/bans/ip/2001%3Adb8%3A%3A1"]:
        caller.call_admin("PUT", path, {"seconds": 60, "reason": "a robot"})
        caller.call_admin("DELETE", path, expect=204)
    caller.call_admin("PUT", "/bans/user/eve", {"seconds": 60})
    eve = sign_in(caller, "eve")
    caller.call("POST", "/api/activities/main/ticket", {}, eve, expect="403 banned")
    assert [ban["name"] for ban in caller.call_admin("GET", "/bans?limit=10")] == ["eve"]
    assert caller.call_admin("GET", "/bans?after=user/eve") == []
    caller.call_admin("GET", "/bans?limit=0", expect="400 invalid_request")
    caller.call_admin("PUT", "/bans/user/eve", {"seconds": 0}, expect="400 invalid_request")
    caller.call_admin("PUT", "/bans/ip/x", {"seconds": 60}, expect="400 invalid_request")
    caller.call_admin("DELETE", "/bans/ip/x", expect="400 invalid_request")
    caller.call_admin("DELETE", "/bans/user/%01", expect="400 invalid_request")
    assert caller.call_admin("GET", "/strikes/ada")["count"] == 0
    caller.call_admin("GET", "/strikes/%01", expect="400 invalid_request")
    caller.call_admin("DELETE", "/strikes/ada", expect=204)


def state_changes(caller):
    """Sheds load, then pauses, rebuilds, resumes and closes an activity, and rotates its start key."""
    fay = sign_in(caller, "fay")
    own_ticket, key = ticket(caller, "main", fay), caller.call("GET", "/api/activities/main/gate.json")["start_key"]
    body = {"sku": "item", "quantity": 1, "ticket": own_ticket, "start_key": key}
    refusal = lambda expect: caller.call_until(expect, expect, "POST", "/api/activities/main/orders", body)
    assert caller.call_admin("PUT", "/shed", {"on": True})["activities"] == 6
    refusal("503 overloaded")
    caller.call_until("shedding", "503 overloaded", "POST", "/api/activities/main/ticket", {}, fay)
    assert caller.call_admin("GET", "/shed")["on"] is True
    caller.call_admin("PUT", "/shed", {"on": False})
    caller.call_admin("PUT", "/shed", {"on": 1}, expect="400 invalid_request")
    caller.call_admin("POST", "/activities/main/rebuild", expect="409 state_conflict")
    caller.call_admin("POST", "/activities/main/pause")
    refusal("503 paused")
    caller.call_admin("POST", "/activities/main/rebuild")
    caller.call_admin("POST", "/activities/main/resume")
    caller.call_admin("POST", "/activities/main/rotate-start-key")
    refusal("403 start_key_invalid")
    caller.call_admin("POST", "/activities/main/close")
    refusal("410 ended")
    caller.call_until("the end", "410 ended", "POST", "/api/activities/main/ticket", {}, fay)
    caller.call_admin("POST", "/activities/main/resume", expect="409 state_conflict")
    for what in ["publish", "pause", "resume", "close", "rotate-start-key", "rebuild"]:
        caller.call_admin("POST", f"/activities/none/{what}", expect="404 not_found")


def probes(caller):
    """Reads the health and metrics routes."""
    for path in ["/healthz", "/readyz"]:
        caller.call("GET", path)
    caller.call_admin("GET", "/changes?limit=1")
    caller.call_admin("GET", "/changes?limit=0", expect="400 invalid_request")
    caller.call("GET", "/metrics", expect="401 unauthenticated")
    caller.call("GET", "/metrics", token=METRICS)


def methods_not_allowed(caller):
    """Asserts that undocumented methods get a 405 whose `Allow` lists the documented ones."""
    contract, location = caller.contract, ("components", "responses", "MethodNotAllowed")
    samples = {"activity": "main", "order_no": f"main.{ULIDS[0]}", "sku": "item", "user": "ada", "ip": "203.0.113.7", "id": "x"}
    for template, item in contract.document["paths"].items():
        path = template.format(**samples)
        allowed = {method.upper() for method in item} & {"GET", "PUT", "POST", "DELETE"}
        allowed |= {"HEAD"} if "GET" in allowed else set()
        for method in {"GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"} - allowed:
            status, headers, raw = send(method, path, token=ADMIN)
            headers = {name.lower(): value for name, value in headers.items()}
            assert status == 405, f"{method} {path}: {status}"
            assert set(headers["allow"].split(", ")) == allowed, f"{path} allows {headers['allow']}, not {allowed}"
            _, response = contract.resolve(location, contract.document["components"]["responses"]["MethodNotAllowed"])
            contract.check_headers(f"{method} {path}", location, response, headers)
            contract.check_content(f"{method} {path}", location, response, headers, raw)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(variable("PORT_EVENTS"))), Shop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    caller = Caller()
    walk(caller)
    never_succeeded = {name for name, *_ in caller.contract.operations()} - caller.contract.succeeded
    assert not never_succeeded, f"never seen to succeed: {never_succeeded}"
