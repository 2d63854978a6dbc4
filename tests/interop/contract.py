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
COMMON_HEADERS = {"content-length", "content-type", "connection", "date"}


def load():
    """The document as it is served."""
    return json.loads((ROOT / "static/openapi.json").read_text())


def with_closed_objects(node):
    """The same with closed objects: an answer has no member that the document does not name."""
    if isinstance(node, list):
        return [with_closed_objects(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {name: with_closed_objects(value) for name, value in node.items()}
    if isinstance(node.get("properties"), dict) and "type" in node and "additionalProperties" not in node:
        closed["additionalProperties"] = False
    return closed


class Contract:
    """Judges requests and answers, and remembers which operations it saw succeed."""

    def __init__(self, document):
        self.document = document
        self.succeeded = set()
        resource = lambda contents: Resource(contents=contents, specification=DRAFT202012)
        self.registry = Registry().with_resources([
            ("urn:open", resource(document)),
            ("urn:closed", resource(with_closed_objects(copy.deepcopy(document)))),
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

    def find_operation(self, method, path):
        """The JSON pointer of the operation that answers a request, and the operation."""
        for pattern, template, item in self.paths:
            if pattern.match(path.split("?")[0]) and method.lower() in item:
                return ("paths", template, method.lower()), item[method.lower()]
        raise AssertionError(f"{method} {path} is not in the document")

    def resolve(self, location, node):
        """What a reference means, and where it stands."""
        while "$ref" in node and set(node) == {"$ref"}:
            location = tuple(token.replace("~1", "/").replace("~0", "~") for token in node["$ref"].split("/")[1:])
            node = self.document
            for token in location:
                node = node[token]
        return location, node

    def validate(self, instance, location, label, closed):
        """An instance fits the schema that stands somewhere in the document."""
        pointer = "/".join(token.replace("~", "~0").replace("/", "~1") for token in location)
        schema = {"$ref": f"urn:{'closed' if closed else 'open'}#/{pointer}"}
        validator = OAS31Validator(schema, registry=self.registry, format_checker=oas31_format_checker)
        errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(instance)]
        assert not errors, f"{label} is not as the document says:\n" + "\n".join(errors) + f"\n{instance}"

    def check_response(self, method, path, body, status, headers, raw):
        """An answer is as the document says, and so is the body that was sent if it was good enough; its JSON."""
        label = f"{method} {path} → {status}"
        location, operation = self.find_operation(method, path)
        assert str(status) in operation["responses"], f"{label} is not in the document: {raw!r}"
        if status < 300 and body is not None:
            content = location + ("requestBody", "content", "application/json", "schema")
            assert "requestBody" in operation, f"{label}: the document has no body there"
            self.validate(body, content, f"the body of {label}", closed=False)
        location, response = self.resolve(location + ("responses", str(status)), operation["responses"][str(status)])
        self.check_headers(label, location, response, headers)
        document = self.check_content(label, location, response, headers, raw)
        if status < 400:
            self.succeeded.add(operation["operationId"])
        return document

    def check_headers(self, label, location, response, headers):
        """Every header is named by the document, and those that it requires are there."""
        documented = response.get("headers", {})
        unknown = set(headers) - set(documented) - COMMON_HEADERS
        assert not unknown, f"{label} has headers that are not in the document: {unknown}"
        for name, header in documented.items():
            header_location, header = self.resolve(location + ("headers", name), header)
            if name in headers:
                is_integer = header["schema"]["type"] == "integer"
                value = int(headers[name]) if is_integer else headers[name]
                self.validate(value, header_location + ("schema",), f"{name} of {label}", closed=True)
            else:
                assert not header.get("required"), f"{label} has no {name}"

    def check_content(self, label, location, response, headers, raw):
        """The content is of a type that the document names, and fits its schema."""
        assert int(headers["content-length"]) == len(raw), f"{label} has another length than it says"
        if "content" not in response:
            assert not raw, f"{label} has content that is not in the document: {raw!r}"
            return None
        media = headers["content-type"].split(";")[0]
        assert media in response["content"], f"{label} is {media}, which is not in the document"
        document = json.loads(raw) if media.endswith("json") else raw.decode()
        self.validate(document, location + ("content", media, "schema"), label, closed=True)
        return document
