"""Client of the app under test: its address, its variables, and requests."""

import json
import os
import time
import urllib.error
import urllib.request


def variable(name):
    """Returns a `STAMPEDE_…` environment variable that `with-app` sets, such as `ADMIN_TOKEN`."""
    return os.environ["STAMPEDE_" + name]


def call(method, path, body=None, token=None, headers=None):
    """Sends a request, and retries a 503 after its `Retry-After`. Returns the status and the JSON document."""
    deadline = time.monotonic() + 30
    while True:
        status, response_headers, raw = send(method, path, body, token, headers)
        wait = int(response_headers.get("retry-after", 0)) if status == 503 else 0
        if not wait or time.monotonic() + wait > deadline:
            return status, json.loads(raw) if raw else None
        time.sleep(wait)


def send(method, path, body=None, token=None, headers=None):
    """Sends a request once. Returns the status, the headers and the bytes of the body."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(variable("URL") + path, data=data, method=method)
    for name, value in {"content-type": "application/json", **(headers or {})}.items():
        request.add_header(name, value)
    if token:
        request.add_header("authorization", "Bearer " + token)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers, refused.read()


def eventually(description, probe):
    """Polls until `probe` returns a true value, and returns it. Fails after 30 seconds."""
    deadline = time.monotonic() + 30
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(description + " did not happen")
        time.sleep(0.1)
