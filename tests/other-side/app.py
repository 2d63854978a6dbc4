"""The app under test, from outside: its address, and what `with-app` says of it."""

import json
import os
import time
import urllib.error
import urllib.request


def variable(name):
    """Something that `with-app` says of the app, such as `ADMIN_TOKEN`."""
    return os.environ["STAMPEDE_" + name]


def ask(method, path, body=None, token=None, headers=None):
    """Sends a request; answers the status and the document."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(variable("URL") + path, data=data, method=method)
    for name, value in {"content-type": "application/json", **(headers or {})}.items():
        request.add_header(name, value)
    if token:
        request.add_header("authorization", "Bearer " + token)
    try:
        with urllib.request.urlopen(request) as response:
            status, text = response.status, response.read()
    except urllib.error.HTTPError as refused:
        status, text = refused.code, refused.read()
    return status, json.loads(text) if text else None


def eventually(what, look):
    """Looks until there is something to see."""
    deadline = time.monotonic() + 30
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(what + " did not happen")
        time.sleep(0.1)
