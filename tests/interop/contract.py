"""The OpenAPI document, and answers judged by it (G11)."""

import copy
import json
import re
from pathlib import Path

from openapi_schema_validator import OAS31Validator, oas31_format_checker
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")

# What every answer of HTTP has, and no document says.
EVERYWHERE = {"content-length", "content-type", "connection", "date"}


def load():
    """The document as it is served."""
    return json.loads((ROOT / "static/openapi.json").read_text())


def tightened(part):
    """The same with closed objects: an answer has no member that the document does not name."""
    if isinstance(part, list):
        return [tightened(item) for item in part]
    if not isinstance(part, dict):
        return part
    closed = {name: tightened(value) for name, value in part.items()}
    if isinstance(part.get("properties"), dict) and "type" in part and "additionalProperties" not in part:
        closed["additionalProperties"] = False
    return closed


class Contract:
    """Judges requests and answers, and remembers which operations it saw succeed."""

    def __init__(self, document):
        self.document = document
        self.seen = set()
        resource = lambda contents: Resource(contents=contents, specification=DRAFT202012)
        self.registry = Registry().with_resources([
            ("urn:open", resource(document)),
            ("urn:closed", resource(tightened(copy.deepcopy(document)))),
        ])
        self.paths = [
            (re.compile("^" + re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)) + "$"), path, item)
            for path, item in document["paths"].items()
        ]

    def operations(self):
        """Every operation: its id, method, path and description."""
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                if method in METHODS:
                    yield operation["operationId"], method, path, operation

    def find(self, method, path):
        """The JSON pointer of the operation that answers a request, and the operation."""
        for pattern, template, item in self.paths:
            if pattern.match(path.split("?")[0]) and method.lower() in item:
                return ("paths", template, method.lower()), item[method.lower()]
        raise AssertionError(f"{method} {path} is not in the document")

    def follow(self, at, part):
        """What a reference means, and where it stands."""
        while "$ref" in part and set(part) == {"$ref"}:
            at = tuple(step.replace("~1", "/").replace("~0", "~") for step in part["$ref"].split("/")[1:])
            part = self.document
            for step in at:
                part = part[step]
        return at, part

    def validate(self, instance, at, what, closed):
        """An instance fits the schema that stands somewhere in the document."""
        pointer = "/".join(step.replace("~", "~0").replace("/", "~1") for step in at)
        schema = {"$ref": f"urn:{'closed' if closed else 'open'}#/{pointer}"}
        validator = OAS31Validator(schema, registry=self.registry, format_checker=oas31_format_checker)
        wrong = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(instance)]
        assert not wrong, f"{what} is not as the document says:\n" + "\n".join(wrong) + f"\n{instance}"

    def judge(self, method, path, body, status, headers, raw):
        """An answer is as the document says, and so is the body that was sent if it was good enough; its JSON."""
        what = f"{method} {path} → {status}"
        at, operation = self.find(method, path)
        assert str(status) in operation["responses"], f"{what} is not in the document: {raw!r}"
        if status < 300 and body is not None:
            content = at + ("requestBody", "content", "application/json", "schema")
            assert "requestBody" in operation, f"{what}: the document has no body there"
            self.validate(body, content, f"the body of {what}", closed=False)
        at, response = self.follow(at + ("responses", str(status)), operation["responses"][str(status)])
        self.judge_headers(what, at, response, headers)
        document = self.judge_content(what, at, response, headers, raw)
        if status < 400:
            self.seen.add(operation["operationId"])
        return document

    def judge_headers(self, what, at, response, headers):
        """Every header is named by the document, and those that it requires are there."""
        known = response.get("headers", {})
        strange = set(headers) - set(known) - EVERYWHERE
        assert not strange, f"{what} has headers that are not in the document: {strange}"
        for name, header in known.items():
            there, header = self.follow(at + ("headers", name), header)
            if name in headers:
                number = header["schema"]["type"] == "integer"
                value = int(headers[name]) if number else headers[name]
                self.validate(value, there + ("schema",), f"{name} of {what}", closed=True)
            else:
                assert not header.get("required"), f"{what} has no {name}"

    def judge_content(self, what, at, response, headers, raw):
        """The content is of a type that the document names, and fits its schema."""
        assert int(headers["content-length"]) == len(raw), f"{what} has another length than it says"
        if "content" not in response:
            assert not raw, f"{what} has content that is not in the document: {raw!r}"
            return None
        media = headers["content-type"].split(";")[0]
        assert media in response["content"], f"{what} is {media}, which is not in the document"
        document = json.loads(raw) if media.endswith("json") else raw.decode()
        self.validate(document, at + ("content", media, "schema"), what, closed=True)
        return document
