"""The page at /docs: the OpenAPI document as HTML.

    document ──> a heading for each tag ──> its operations, folded: request, responses, and an example command
             └─> the schemas that they use, field by field

Rendered once, on the first request: plain HTML without scripts or external resources, so it works offline, in
a text browser and with the strictest content security policy.  All text is escaped.
"""

import base64
import hashlib
import shlex
from collections.abc import Iterable
from functools import cache
from html import escape
from typing import Any, Final

import msgspec

from penstock.frontends.http.pages.style import STYLE

Document = dict[str, Any]

KIND: Final = "text/html; charset=utf-8"
REF: Final = "#/components/schemas/"
SERVER: Final = "http://localhost:8080"
WHOLE: Final = "whole number"
WORDS: Final = {
    "base64": "base64",
    "string": "text",
    "integer": WHOLE,
    "number": "number",
    "boolean": "true or false",
    "null": "null",
    "object": "object",
}
LIMITS: Final = {
    "minimum": "≥",
    "maximum": "≤",
    "exclusiveMinimum": ">",
    "maxLength": "length ≤",
    "maxItems": "at most",
}
_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# Nothing may be loaded, and the only style is ours.
POLICY: Final = (
    (b"content-security-policy", f"default-src 'none'; style-src 'sha256-{_HASH}'".encode()),
    (b"x-content-type-options", b"nosniff"),
)


def page(document: Document) -> bytes:
    info = document["info"]
    by_tag = _by_tag(document)
    title = f"{info['title']} {info['version']}"
    return "\n".join(
        [
            '<!doctype html><html lang="en"><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}: HTTP API</title><style>{STYLE}</style>",
            '<a class="skip" href="#main">To the operations</a>',
            f"<nav><h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>",
            *_contents(by_tag),
            f'</nav><main id="main"><h2>HTTP API</h2><p>{_code(info["description"])}</p>',
            '<p>Errors are <a href="#schema-Problem">Problem</a>, <code>application/problem+json</code>. '
            "Where keys are asked for: <code>Authorization: Bearer pk_...</code>.</p>",
            '<p>The same for machines: <a href="/openapi.json">/openapi.json</a>. '
            "Durations are text (<code>5m</code>) or seconds, times RFC 3339 or seconds since 1970.</p>",
            *_operations(by_tag, document["components"]["schemas"]),
            "<h2>Documents</h2>",
            *(_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items())),
            "</main></html>",
        ]
    ).encode()


Found = tuple[str, str, Document]  # Method, path, operation.


def _by_tag(document: Document) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            found.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    return found


def _contents(by_tag: dict[str, list[Found]]) -> Iterable[str]:
    for tag, operations in by_tag.items():
        yield f"<h3>{escape(tag)}</h3><ul>"
        for method, path, operation in operations:
            name = escape(operation["operationId"])
            short = escape(path.removeprefix("/v1")).replace("/", "<wbr>/")
            yield f'<li><a href="#{name}"><b class="{method.lower()}">{method}</b> {short}</a></li>'
        yield "</ul>"


# One operation.


def _operations(by_tag: dict[str, list[Found]], schemas: Document) -> Iterable[str]:
    for tag, operations in by_tag.items():
        yield f"<h2>{escape(tag)}</h2>"
        for found in operations:
            yield from _operation(*found, schemas)


def _operation(method: str, path: str, operation: Document, schemas: Document) -> Iterable[str]:
    yield (
        f'<details><summary><b class="{method.lower()}">{method}</b> <code>{escape(path)}</code> '
        f"<span>{escape(operation['summary'])}</span></summary>"
    )
    yield f'<div id="{escape(operation["operationId"])}">'
    if "security" not in operation:
        yield "<p>Without a login.</p>"
    parameters = [each for each in operation.get("parameters", []) if each["in"] == "query"]
    if parameters:
        yield "<h4>Query</h4>" + _fields({each["name"]: each["schema"] for each in parameters}, ())
    body = operation.get("requestBody")
    if body:
        yield f"<h4>Body</h4><p>{_contents_of(body)}</p>{_body_fields(body, schemas)}"
    yield f"<h4>Try it</h4><pre>{escape(_command(method, path, operation))}</pre>"
    yield "<h4>Answers</h4><table>"
    for status, response in operation["responses"].items():
        codes = "</code> <code>".join(escape(response["description"]).split(", "))
        parts = f"<code>{codes}</code>" if int(status) >= 400 else _contents_of(response) or "nothing"
        yield f"<tr><th>{status}</th><td>{parts}</td></tr>"
    yield "</table></div></details>"


def _body_fields(body: Document, schemas: Document) -> str:
    schema = body["content"]["application/json"]["schema"]
    named = schemas.get(str(schema.get("$ref", "")).removeprefix(REF), {})
    return _fields(named.get("properties", {}), named.get("required", ()))


def _contents_of(described: Document) -> str:
    parts = []
    for kind, content in described.get("content", {}).items():
        shown = _type(content["schema"])
        parts.append(f"<code>{escape(kind)}</code>" if shown == "text" else f"{shown} <i>{escape(kind)}</i>")
    return ", ".join(parts)


def _command(method: str, path: str, operation: Document) -> str:
    """An example as a shell command."""
    url = SERVER + path
    for each in operation.get("parameters", []):
        if each["in"] == "path":
            url = url.replace(f"{{{each['name']}}}", each["example"])
    words = ["curl"] if method in ("GET", "POST") else ["curl", "-X", method]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
    if body is not None:
        words += ["--json", shlex.quote(msgspec.json.encode(body).decode())]
    elif method == "POST":
        words += ["-X", "POST"]
    return " ".join([*words, shlex.quote(url)])


# Documents.


def _schema(name: str, schema: Document) -> str:
    head = f'<section id="schema-{escape(name)}"><h3>{escape(name)}</h3>'
    about = f"<p>{_code(schema['description'])}</p>" if "description" in schema else ""
    return head + about + _fields(schema.get("properties", {}), schema.get("required", ())) + "</section>"


def _fields(fields: Document, required: Iterable[str]) -> str:
    rows = [
        f"<tr><th><code>{escape(name)}</code></th><td>{_type(field)}{_limits(field)}</td>"
        f"<td>{_default(name, field, required)}</td></tr>"
        for name, field in fields.items()
    ]
    return f"<table>{''.join(rows)}</table>" if rows else ""


def _type(schema: Document) -> str:
    """A type in a few words, with links to the schemas that it names."""
    match schema:
        case {"$ref": str(reference)}:
            name = escape(reference.removeprefix(REF))
            return f'<a href="#schema-{name}">{name}</a>'
        case {"anyOf": list(choices)}:
            words = list(map(_type, choices))
            return " or ".join(word for word in words if word != WHOLE or WORDS["number"] not in words)
        case {"enum": list(values)}:
            return " or ".join(f"<code>{escape(str(value))}</code>" for value in values)
        case {"items": dict(items)}:
            return f"list of {_type(items)}"
        case {"additionalProperties": dict(values)}:
            return f"names with {_type(values)}"
        case _:
            return WORDS.get(str(schema.get("contentEncoding") or schema.get("type")), "any JSON")


def _limits(schema: Document) -> str:
    found = [f"{words} {schema[name]:,}" for name, words in LIMITS.items() if name in schema]
    found += [_limits(each).strip() for each in schema.get("anyOf", ())]
    return "".join(f" <small>{each}</small>" if "<" not in each else f" {each}" for each in found if each)


def _default(name: str, field: Document, required: Iterable[str]) -> str:
    if name in required:
        return "must be given"
    default = field.get("default")
    return "" if default is None else f"else <code>{escape(msgspec.json.encode(default).decode())}</code>"


@cache
def _code(text: str) -> str:
    """Text with code between backticks."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
