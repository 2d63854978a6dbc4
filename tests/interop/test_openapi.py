"""The OpenAPI document, checked against the app and the project (G11)."""

import json
import os
import re
import subprocess
import sys
import tomllib
import unittest
import urllib.request
from pathlib import Path

from openapi_spec_validator import OpenAPIV31SpecValidator

from app import ask, variable
from contract import METHODS, ROOT, load

# What these routes of the manifest serve is no part of the interface, or is listed below /api/admin.
CATCH_ALL = {"/api/...", "/sandbox/...", "/..."}
HERE = Path(__file__).resolve().parent


def documented():
    """Every operation of the document as `GET /api/orders/:order_no`."""
    for path, item in load()["paths"].items():
        for method in item:
            if method in METHODS:
                yield f"{method.upper()} {colons(path)}"


def colons(path):
    """A path with its parameters as the manifest and the README write them."""
    return re.sub(r"\{(\w+)\}", r":\1", path)


def nameless(route):
    """A route whose parameters have no names."""
    return re.sub(r":\w+", ":", route)


def told_by_the_readme():
    """The routes of the README's table, as `GET /api/orders/:order_no`, with its abbreviations undone."""
    text = (ROOT / "README.md").read_text().split("## Routes")[1].split("\n## ")[0]
    for row in re.findall(r"^\| (.*?) \| ", text, re.M):
        method, first, last = "", "", ""
        for word in re.findall(r"`([^`]+)`", row):
            method, path = word.split(" ") if " " in word else (method, word)
            if path.startswith("…"):
                last = (first.rsplit("/…", 1)[0] or "") + path[1:]
            elif last and path.count("/") <= 1 and not path.startswith("/api"):
                last = last.rsplit("/", 1)[0] + "/" + path.lstrip("/")
            else:
                last = path
            first = first or last
            if method:
                yield f"{method} {last}"


def routes_of_admin():
    """The routes in the arms of `functions/admin/src/routes.rs`, parameters without names."""
    text = (ROOT / "functions/admin/src/routes.rs").read_text()
    for method, arm in re.findall(r"\(&Method::(\w+), \[(.*?)\]\) =>", text):
        paths = ["/api/admin"] if '"healthz"' not in arm and '"readyz"' not in arm and '"metrics"' not in arm else [""]
        for part in arm.split(", "):
            words = re.findall(r'"([^"]+)"', part) or [":"]
            paths = [f"{path}/{word}" for path in paths for word in words]
        yield from (f"{method} {path}" for path in paths)


def beside_an_app(*command, variables=()):
    """Runs a command beside an app of its own, which pays in the sandbox."""
    flags = [part for variable in variables for part in ("--variable", variable)]
    programs = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    return subprocess.run([programs / "with-app", *flags, *command], capture_output=True, text=True, timeout=1800, cwd=HERE)


class Document(unittest.TestCase):
    """What the document says of itself and of the project."""

    def test_the_document_is_openapi_3_1(self):
        document = load()
        self.assertEqual(document["openapi"], "3.1.0")
        self.assertEqual([error.message for error in OpenAPIV31SpecValidator(document).iter_errors()], [])

    def test_the_app_serves_the_document(self):
        with urllib.request.urlopen(variable("URL") + "/openapi.json") as answer:
            self.assertEqual(answer.headers["content-type"], "application/json")
            self.assertEqual(json.load(answer), load())

    def test_every_route_of_the_manifest_is_in_the_document_and_the_other_way_round(self):
        manifest = tomllib.loads((ROOT / "spin.toml").read_text())
        routes = {trigger["route"] for trigger in manifest["trigger"]["http"]} - CATCH_ALL
        paths = {colons(path) for path in load()["paths"]}
        self.assertEqual({path for path in paths if not path.startswith("/api/admin/")}, routes)

    def test_every_route_of_the_operators_is_in_the_document_and_the_other_way_round(self):
        admin = {nameless(route) for route in documented() if re.search(r" /(api/admin/|healthz|readyz|metrics)", route)}
        self.assertEqual(admin, set(routes_of_admin()))

    def test_every_route_of_the_readme_is_in_the_document_and_the_other_way_round(self):
        told, routes = set(told_by_the_readme()), set(documented())
        self.assertEqual({nameless(route) for route in told} - {nameless(route) for route in routes}, set())
        self.assertEqual({route for route in routes if " /api/admin/" not in route} - told, set())

    def test_every_code_stands_under_its_status(self):
        text = (ROOT / "crates/domain/src/problem.rs").read_text()
        codes = {code: int(status) for code, status in re.findall(r'^    \w+ = "(\w+)", (\d+), ".*";$', text, re.M)}
        document = load()
        self.assertEqual(set(document["components"]["schemas"]["Code"]["enum"]), set(codes))
        judged = 0
        for status, response in self.responses(document):
            for schema in (media["schema"] for media in response.get("content", {}).values()):
                if "code" in schema.get("properties", {}):
                    named = schema["properties"]["code"]["enum"]
                    self.assertEqual({str(codes[code]) for code in named}, {status})
                    self.assertEqual(str(schema["properties"]["status"]["const"]), status)
                    waits = status in ("429", "503") or "not_open" in named
                    self.assertEqual("retry-after" in response["headers"], waits, named)
                    judged += 1
        self.assertGreater(judged, 100)

    def responses(self, document):
        """Every response of every operation, with its status."""
        for item in document["paths"].values():
            for operation in (item[method] for method in item if method in METHODS):
                for status, response in operation["responses"].items():
                    name = response.get("$ref", "").rsplit("/", 1)[-1]
                    yield status, document["components"]["responses"][name] if name else response


class RunningApp(unittest.TestCase):
    """What the app answers."""

    def test_a_whole_sale_is_answered_as_the_document_says(self):
        """Runs `walk.py`: every operation succeeds at least once, and is refused in most of the ways it can be."""
        events = ["events_url=http://127.0.0.1:{port:events}/events", "events_host=http://127.0.0.1:{port:events}"]
        ran = beside_an_app(sys.executable, "walk.py", variables=events)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_whatever_is_sent_is_answered_as_the_document_says(self):
        """Runs `fuzz.py`: Schemathesis sends what the document allows, and what it does not."""
        ran = beside_an_app(sys.executable, "fuzz.py")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
