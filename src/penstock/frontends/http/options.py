"""Structs of options, derived from the classes of the Python API, so that both have the same options."""

import types
from datetime import datetime, timedelta
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType


def plain_type(hint: Any) -> Any:
    """A type without what only Python has: in JSON a duration is text or seconds, and a time is text."""
    if get_origin(hint) is list:
        return list[plain_type(get_args(hint)[0])]  # type: ignore[misc]
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    kinds = [plain_type(kind) for kind in get_args(hint) if kind is not timedelta]
    if datetime in kinds:  # Then words and times are both text.
        kinds = [kind for kind in kinds if kind is not datetime and get_origin(kind) is not Literal] + [str]
    return Union[tuple(kinds)]  # noqa: UP007 - of a list.


def options_struct(name: str, options: Any, docstring: str) -> type[msgspec.Struct]:
    """A struct with the fields of a class of options, none of which must be given."""
    fields = [(field, plain_type(hint) | UnsetType, UNSET) for field, hint in get_type_hints(options).items()]
    return msgspec.defstruct(
        name,
        fields,
        namespace={"__doc__": docstring},
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def given(options: msgspec.Struct) -> dict[str, Any]:
    """The options that were given."""
    found = {name: getattr(options, name) for name in options.__struct_fields__}
    return {name: value for name, value in found.items() if value is not UNSET}
