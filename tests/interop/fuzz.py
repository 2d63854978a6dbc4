"""Runs Schemathesis against every route of a running app. Deterministic: sends the same requests each time."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from app import call, eventually, variable
from contract import ROOT
from walk import spec

HERE = Path(__file__).resolve().parent

CONFIG = """
[auth.openapi]
jwt = {{ bearer = "{jwt}" }}
ticket = {{ bearer = "{ticket}" }}
adminToken = {{ bearer = "{admin}" }}
cronToken = {{ bearer = "{cron}" }}

# What exists, so that not every answer is a 404.
[dictionaries]
sales = {{ values = ["buyers"] }}
operated = {{ values = ["operated", "draft"] }}
skus = {{ values = ["item", "file"] }}
orders = {{ values = ["{order}"] }}
tickets = {{ values = ["{ticket}"] }}
keys = {{ values = ["{key}"] }}

[parameters]
"path.activity" = {{ dictionary = "sales", probability = 0.8 }}
"path.order_no" = {{ dictionary = "orders", probability = 0.7 }}
"body.ticket" = {{ dictionary = "tickets", probability = 0.8 }}
"body.start_key" = {{ dictionary = "keys", probability = 0.8 }}
"body.sku" = {{ dictionary = "skus", probability = 0.8 }}

[[operations]]
include-path-regex = "/api/admin/activities/"
parameters = {{ "path.activity" = {{ dictionary = "operated", probability = 0.8 }}, "path.sku" = {{ dictionary = "skus", probability = 0.8 }} }}

# A list that is too long is refused for its size.
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "409", "413", "422", "429", "503"]

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "503"]
"""

CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance",
          "response_schema_conformance", "response_headers_conformance", "unsupported_method", "negative_data_rejection"]


def create_test_data():
    """Creates the three activities and the order that the configuration refers to. Returns the values for `CONFIG`."""
    admin = variable("ADMIN_TOKEN")
    for name in ["buyers", "operated", "draft"]:
        assert call("PUT", "/api/admin/activities/" + name, spec(), admin)[0] == 200
    for name in ["buyers", "operated"]:
        assert call("POST", f"/api/admin/activities/{name}/publish", None, admin)[0] == 200
    jwt = call("POST", "/sandbox/sign-in", {"user": "ada"})[1]["token"]
    ticket = eventually("a ticket", lambda: call("POST", "/api/activities/buyers/ticket", {}, jwt)[1].get("ticket"))
    key = call("GET", "/api/activities/buyers/gate.json")[1]["start_key"]
    body = {"sku": "item", "quantity": 1, "ticket": ticket, "start_key": key}
    status, order = call("POST", "/api/activities/buyers/orders", body)
    assert status == 202, order
    return {"jwt": jwt, "ticket": ticket, "key": key, "order": order["order_no"], "admin": admin, "cron": variable("CRON_TOKEN")}


def main():
    """Runs Schemathesis and returns its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "schemathesis.toml"
        config.write_text(CONFIG.format(**create_test_data()))
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", config, "run", ROOT / "static/openapi.json",
                   "--url", variable("URL"), "--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing",
                   "--mode", "all", "--max-examples", "15", "--generation-deterministic", "--continue-on-failure", *sys.argv[1:]]
        environment = {**os.environ, "SCHEMATHESIS_HOOKS": "fuzz_hooks", "PYTHONPATH": str(HERE)}
        return subprocess.run(command, env=environment, cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
