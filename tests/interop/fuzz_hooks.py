"""Schemathesis hooks: sign payment callbacks, so that the app processes some of their bodies."""

import os
from datetime import datetime, timezone

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from standardwebhooks.webhooks import Webhook


class Signature:
    """Adds the Standard Webhooks headers to a prepared request; skips bodies that are not UTF-8."""

    def __call__(self, request):
        now, body = datetime.now(tz=timezone.utc), request.body or b""
        body = body.encode() if isinstance(body, str) else body
        try:
            secret = os.environ["STAMPEDE_WEBHOOK_SECRETS"].split(" ")[0]
            signature = Webhook(secret).sign("evt_fuzz", now, body.decode())
        except UnicodeDecodeError:
            return request
        request.headers.update({"webhook-id": "evt_fuzz", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature})
        return request


@schemathesis.hook
def before_call(context, case, kwargs):
    """Signs every callback that was generated with valid headers."""
    headers = case.meta.components.get(ParameterLocation.HEADER) if case.meta else None
    if case.path == "/api/payments/webhook" and headers and not headers.mode.is_negative:
        kwargs["auth"] = Signature()
