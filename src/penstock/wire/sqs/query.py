"""The query protocol: fields of a form become the structure that the JSON protocol sends as such.

    AttributeName.1=All                                    AttributeNames: [All]
    Attribute.1.Name=DelaySeconds&Attribute.1.Value=5      Attributes: {DelaySeconds: 5}
    SendMessageBatchRequestEntry.1.Id=a                    Entries: [{Id: a}]

Lists and maps are numbered from 1; the numbers only say the order.  The number of fields and their depth are
limited, so that a form cannot become a structure larger than its bytes.
"""

from typing import Any, Final
from urllib.parse import parse_qsl

FIELDS_MAX: Final = 1000  # A batch of ten messages with ten attributes each has about 400.
DEPTH_MAX: Final = 8

_LISTS: Final = {
    "AttributeName": "AttributeNames",
    "MessageAttributeName": "MessageAttributeNames",
    "MessageSystemAttributeName": "MessageSystemAttributeNames",
    "TagKey": "TagKeys",
    "ActionName": "Actions",
    "AWSAccountId": "AWSAccountIds",
}
_MAPS: Final = {
    "Attribute": ("Attributes", "Name"),
    "MessageAttribute": ("MessageAttributes", "Name"),
    "MessageSystemAttribute": ("MessageSystemAttributes", "Name"),
    "Tag": ("Tags", "Key"),
}
_ENTRIES: Final = "RequestEntry"


class BadForm(ValueError):  # noqa: N818 - it becomes an error of the service.
    """The fields of a form do not make a structure."""


def read_form(text: bytes) -> list[tuple[str, str]]:
    """The fields of a form; ValueError if it is none."""
    return parse_qsl(
        text.decode(),
        keep_blank_values=True,
        strict_parsing=bool(text),
        max_num_fields=FIELDS_MAX,
        errors="strict",
    )


def nested(action: str, fields: list[tuple[str, str]]) -> dict[str, Any]:
    """The structure that fields describe."""
    tree: dict[str, Any] = {}
    for name, value in fields:
        _put(tree, name.split("."), value)
    request = _structure(tree)
    if action == "CreateQueue" and "Tags" in request:
        request["tags"] = request.pop("Tags")
    return request


def _put(tree: dict[str, Any], path: list[str], value: str) -> None:
    if len(path) > DEPTH_MAX:
        raise BadForm(f"a field has at most {DEPTH_MAX} parts")
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise BadForm(f"the field {part} is a value and a structure")
    if isinstance(tree.get(path[-1]), dict):
        raise BadForm(f"the field {path[-1]} is a value and a structure")
    tree[path[-1]] = value


def _structure(tree: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in tree.items():
        if name in _LISTS:
            made[_LISTS[name]] = [value] if isinstance(value, str) else _in_order(value)
        elif name in _MAPS:
            called, key = _MAPS[name]
            made[called] = {
                _text(item[key]): item.get("Value", "")
                for item in map(_item, _in_order(value))
                if key in item
            }
        elif name.endswith(_ENTRIES):
            made["Entries"] = [_structure(_item(item)) for item in _in_order(value)]
        else:
            made[name] = value
    return made


def _in_order(numbered: Any) -> list[Any]:
    if not isinstance(numbered, dict) or not all(name.isascii() and name.isdigit() for name in numbered):
        raise BadForm("the items of a list are numbered")
    return [numbered[name] for name in sorted(numbered, key=int)]


def _item(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadForm("an item of this list has fields")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadForm("the name of an item has no fields")
    return value
