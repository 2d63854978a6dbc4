"""Checks the OpenAPI document against the README and a running app (G11)."""

import json
import os
import re
import subprocess
import sys
import unittest
import urllib.request
from pathlib import Path

from app import variable
from contract import METHODS, ROOT, load

HERE = Path(__file__).resolve().parent


def documented_routes():
    """Yields every operation of the document, as `GET /api/orders/:order_no`."""
    for path, item in load()["paths"].items():
        for method in item:
            if method in METHODS:
                yield f"{method.upper()} {with_colons(path)}"


def with_colons(path):
    """Converts `{name}` in a path to `:name`, as the manifest and the README write parameters."""
    return re.sub(r"\{(\w+)\}", r":\1", path)


def without_parameter_names(route):
    """Replaces every parameter of a route with `:`."""
    return re.sub(r":\w+", ":", route)


def readme_routes():
    """Yields the routes of the README's tables, as `GET /api/orders/:order_no`, with abbreviations expanded."""
    text = (ROOT / "README.md").read_text().split("## Routes")[1].split("\n## ")[0]
    for row in re.findall(r"^\| (.*?) \| ", text, re.M):
        method, first_path, full_path = "", "", ""
        for word in re.findall(r"`([^`]+)`", row):
            method, path = word.split(" ") if " " in word else (method, word)
            if path.startswith("…"):
                full_path = (first_path.rsplit("/…", 1)[0] or "") + path[1:]
            elif full_path and path.count("/") <= 1 and not path.startswith("/api"):
                full_path = full_path.rsplit("/", 1)[0] + "/" + path.lstrip("/")
            else:
                full_path = path
            first_path = first_path or full_path
            if method:
                yield f"{method} {full_path}"


def run_with_app(*command, variables=()):
    """Runs a command with a new app, which uses the sandbox for payments."""
    flags = [part for variable in variables for part in ("--variable", variable)]
    programs = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    return subprocess.run([programs / "with-app", *flags, *command], capture_output=True, text=True, timeout=1800, cwd=HERE)


class Document(unittest.TestCase):
    """Checks that the app serves the document, and that the README has its routes."""

    def test_the_app_serves_the_document(self):
        with urllib.request.urlopen(variable("URL") + "/openapi.json") as answer:
            self.assertEqual(answer.headers["content-type"], "application/json")
            self.assertEqual(json.load(answer), load())

    def test_the_readme_and_the_document_have_the_same_routes(self):
        listed, routes = set(readme_routes()), set(documented_routes())
        self.assertEqual(set(map(without_parameter_names, listed)) - set(map(without_parameter_names, routes)), set())
        self.assertEqual({route for route in routes if " /api/admin/" not in route} - listed, set())


class RunningApp(unittest.TestCase):
    """Checks of a running app's responses against the document."""

    def test_every_response_of_a_whole_sale_matches_the_document(self):
        """Runs `walk.py`: every operation succeeds at least once, and most of its errors occur."""
        events = ["events_url=http://127.0.0.1:{port:events}/events", "events_host=http://127.0.0.1:{port:events}"]
        result = run_with_app(sys.executable, "walk.py", variables=events)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_every_response_to_a_fuzzed_request_matches_the_document(self):
        """Runs `fuzz.py`: Schemathesis sends valid and invalid requests."""
        result = run_with_app(sys.executable, "fuzz.py")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
