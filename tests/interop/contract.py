"""The OpenAPI document, and checks of responses against it (G11)."""

import copy
import json
import re
from pathlib import Path

from openapi_schema_validator import OAS31Validator, oas31_format_checker
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")

# Headers of every HTTP response, which the document does not list.
COMMON_HEADERS = {"content-length", "content-type", "connection", "date"}


def load():
    """Returns the OpenAPI document."""
    return json.loads((ROOT / "static/openapi.json").read_text())


def with_closed_objects(node):
    """Returns a copy of a schema that allows no members beyond those that it names."""
    if isinstance(node, list):
        return [with_closed_objects(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {name: with_closed_objects(value) for name, value in node.items()}
    if isinstance(node.get("properties"), dict) and "type" in node and "additionalProperties" not in node:
        closed["additionalProperties"] = False
    return closed


class Contract:
    """Checks requests and responses, and records the operations that succeeded."""

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
        """Yields every operation: its id, method, path and definition."""
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                if method in METHODS:
                    yield operation["operationId"], method, path, operation

    def find_operation(self, method, path):
        """Returns the location of the operation for a request, as the tokens of its JSON pointer, and the operation."""
        for pattern, template, item in self.paths:
            if pattern.match(path.split("?")[0]) and method.lower() in item:
                return ("paths", template, method.lower()), item[method.lower()]
        raise AssertionError(f"{method} {path} is not in the document")

    def resolve(self, location, node):
        """Follows a `$ref`. Returns the location and the node that it refers to."""
        while "$ref" in node and set(node) == {"$ref"}:
            location = tuple(token.replace("~1", "/").replace("~0", "~") for token in node["$ref"].split("/")[1:])
            node = self.document
            for token in location:
                node = node[token]
        return location, node

    def validate(self, instance, location, label, closed):
        """Asserts that an instance is valid by the schema at a location. `closed` allows no undocumented members."""
        pointer = "/".join(token.replace("~", "~0").replace("/", "~1") for token in location)
        schema = {"$ref": f"urn:{'closed' if closed else 'open'}#/{pointer}"}
        validator = OAS31Validator(schema, registry=self.registry, format_checker=oas31_format_checker)
        errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(instance)]
        assert not errors, f"{label} is not as the document says:\n" + "\n".join(errors) + f"\n{instance}"

    def check_response(self, method, path, body, status, headers, raw):
        """Asserts that a response, and the request body if it was accepted, match the document. Returns the content."""
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
        """Asserts that every header is documented and valid, and that required headers are present."""
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
        """Asserts that the content has a documented type and is valid by its schema. Returns the parsed content."""
        assert int(headers["content-length"]) == len(raw), f"{label} has another length than it says"
        if "content" not in response:
            assert not raw, f"{label} has content that is not in the document: {raw!r}"
            return None
        media = headers["content-type"].split(";")[0]
        assert media in response["content"], f"{label} is {media}, which is not in the document"
        document = json.loads(raw) if media.endswith("json") else raw.decode()
        self.validate(document, location + ("content", media, "schema"), label, closed=True)
        return document
