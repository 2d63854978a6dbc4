"""Payment callbacks, signed by the official library from PyPI (E2)."""

import json
import unittest
from datetime import datetime, timedelta, timezone

from standardwebhooks.webhooks import Webhook

from app import call, variable


def send_callback(event, body, at, secret):
    """Signs a callback with the official library, as a provider would, and sends it."""
    payload = json.dumps(body)
    headers = {
        "webhook-id": event,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(event, at, payload),
    }
    return call("POST", "/api/payments/webhook", payload.encode(), headers=headers)


class Callbacks(unittest.TestCase):
    """The app's responses to callbacks."""

    secret = variable("WEBHOOK_SECRETS").split(" ")[0]
    body = {"type": "customer.created", "timestamp": "x", "data": {"name": "Zoë"}}

    def test_a_callback_that_the_official_library_signed_is_accepted(self):
        status, _ = send_callback("evt_py", self.body, datetime.now(tz=timezone.utc), self.secret)
        self.assertEqual(status, 204)

    def test_a_callback_that_is_too_old_or_signed_with_another_secret_is_refused(self):
        now = datetime.now(tz=timezone.utc)
        for at, secret in [
            (now - timedelta(seconds=301), self.secret),
            (now + timedelta(seconds=330), self.secret),
            (now, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"),
        ]:
            status, problem = send_callback("evt_py", self.body, at, secret)
            self.assertEqual((status, problem["code"]), (401, "signature_invalid"))


if __name__ == "__main__":
    unittest.main()
