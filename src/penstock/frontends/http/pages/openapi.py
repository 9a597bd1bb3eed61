"""The OpenAPI 3.1 document, made from the table of routes and the structs it names.

Paths and statuses come from the table, schemas from the structs, and texts from the docstrings of handlers
and errors.
"""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from penstock.frontends.http import registry_problems
from penstock.frontends.http.call import JSON, NDJSON, Route
from penstock.frontends.http.problems import MEDIA_TYPE, STATUSES, Problem, status
from penstock.frontends.http.registry_problems import RegistryError
from penstock.version import __version__

Document = dict[str, Any]

REF: Final = "#/components/schemas/{name}"
EXAMPLES: Final = {  # Of what stands in a path; of an id, by what stands before it.
    "topic": "orders",
    "group": "billing",
    "user": "anna",
    "node": "2",
    "subject": "orders-value",
    "table": "orders",
    "version": "1",
    "ids": "1",
    "transaction": "7.0.YmlsbGluZw",
    "keys": "5b2c0d9e7f10",
    "schedules": "orders:0:s0",
    "trace": "orders:0:0",
    "dead-letters": "orders.dlq:0:0",
}
OF_ALL: Final = ("INTERNAL", "CLOSED")
OF_LOGINS: Final = (
    "UNAUTHENTICATED", "FORBIDDEN", "QUOTA_EXCEEDED", "HOST_NOT_ALLOWED", "ORIGIN_NOT_ALLOWED",
)  # fmt: skip
OF_BODIES: Final = ("REQUEST_INVALID", "REQUEST_TOO_LARGE", "REQUEST_TIMEOUT", "MEDIA_TYPE_UNSUPPORTED")
DESCRIPTION: Final = (
    "Publish, consume and browse messages over HTTP and JSON. Errors are problem documents (RFC 9457) "
    "with a stable `code`, a message, and what to do."
)


def document(routes: Iterable[Route]) -> Document:
    routes = list(routes)
    schemas, components = _schemas(routes)
    paths: Document = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock", "version": __version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key: pk_<id>_<secret>."},
                "user": {"type": "http", "scheme": "basic", "description": "A user's name and password."},
            },
        },
    }


def _schemas(routes: list[Route]) -> tuple[dict[Any, Document], Document]:
    """The schema of each type that a route names, and the components these refer to."""
    kinds: list[Any] = [Problem, RegistryError]
    for route in routes:
        for kind in (route.body, route.answer):
            if kind is not None and kind not in kinds:
                kinds.append(kind)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REF)
    return dict(zip(kinds, schemas, strict=True)), components


def _operation(route: Route, schemas: dict[Any, Document]) -> Document:
    made: Document = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "responses": _responses(route, schemas),
    }
    parameters = [*_path_parameters(route.path), *_query_parameters(route)]
    if parameters:
        made["parameters"] = parameters
    if route.body is not None:
        content: Document = {JSON: {"schema": schemas[route.body]}}
        if route.example is not None:
            content[JSON]["example"] = route.example
        if route.streamed:
            content[NDJSON] = {"schema": {"type": "string"}}
        made["requestBody"] = {"required": route.needs_body, "content": content}
    if route.operation is not None:
        made["security"] = [{}, {"key": []}, {"user": []}]  # A server may ask for neither.
    return made


def _path_parameters(path: str) -> list[Document]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string"},
            "example": EXAMPLES[before if name == "id" else name],
        }
        for before, name in re.findall(r"([\w-]+)/{(\w+)}", path)
    ]


def _query_parameters(route: Route) -> list[Document]:
    if route.query is None:
        return []
    _, components = msgspec.json.schema_components([route.query], ref_template=REF)
    schema = components[route.query.__name__]
    return [
        {"name": name, "in": "query", "required": name in schema["required"], "schema": field}
        for name, field in schema["properties"].items()
    ]


def _responses(route: Route, schemas: dict[Any, Document]) -> Document:
    response: Document = {"description": HTTPStatus(route.status).phrase}
    content = {} if route.answer is None else {JSON: {"schema": schemas[route.answer]}}
    if route.kind != JSON:
        content[route.kind] = {"schema": {"type": "string"}}
    for kind in (*route.others, *([] if route.pieces is None else [route.pieces])):
        content[kind] = {"schema": {"type": "string"}}
    if content:
        response["content"] = content
    responses = {str(route.status): response}
    by_status: dict[int, list[str]] = {}
    for code in codes(route):
        number = registry_problems.status_of(code) if route.registry else status(code)
        by_status.setdefault(number, []).append(code)
    problem: Document = {MEDIA_TYPE: {"schema": schemas[Problem]}}
    if route.registry:
        problem = {JSON: {"schema": schemas[RegistryError]}}
    for number, found in sorted(by_status.items()):
        responses[str(number)] = {
            "description": ", ".join(found),
            "content": problem,
        }
    return responses


def codes(route: Route) -> list[str]:
    """The codes of all errors that a route may answer with."""
    found = [*route.errors, *OF_ALL]
    if route.operation is not None:
        found += OF_LOGINS
    if route.body is not None:
        found += OF_BODIES
    if route.query is not None:
        found.append("REQUEST_INVALID")
    assert all(code in STATUSES for code in found)
    return list(dict.fromkeys(found))
