"""The annotations of a part (``fields``) for one version, from which readers and writers are generated."""

from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from penstock.wire.kafka.fields import Fixed, Part, Sized, Versions

Kind = Fixed | Sized | type[Part]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a part in one version."""

    name: str
    kind: Kind
    is_list: bool
    nullable: bool
    present: bool  # In this version; if not, it has its default and is not on the wire.
    tag: int | None
    default: Any  # Never changed.

    @property
    def element(self) -> "Field":
        """What such a list is made of."""
        return Field(self.name, self.kind, False, False, True, None, None)


@cache  # As many as there are parts and versions.
def fields_of(part: type[Part], version: int) -> list[Field]:
    """All fields of a part, in their order."""
    hints = get_type_hints(part, include_extras=True)
    sample = part()
    return [_field(name, hints[name], getattr(sample, name), version) for name in part.__struct_fields__]


def _field(name: str, hint: Any, default: Any, version: int) -> Field:
    bare, marks = _split(hint)
    versions = next((mark for mark in marks if isinstance(mark, Versions)), Versions())
    bare, marks, optional = _not_none(bare, marks)
    is_list = get_origin(bare) is list
    if is_list:
        bare, marks = _split(get_args(bare)[0])
    kinds = [mark for mark in marks if isinstance(mark, Fixed | Sized)]
    nullable = optional and version >= versions.nullable
    return Field(
        name, kinds[0] if kinds else bare, is_list, nullable, version in versions, versions.tag, default
    )


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without its marks, and the marks."""
    return getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint, getattr(
        hint, "__metadata__", ()
    )


def _not_none(hint: Any, marks: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], bool]:
    """``X | None`` as X with its marks, and whether it was one."""
    choices = get_args(hint)
    if get_origin(hint) is list or NoneType not in choices:
        return hint, marks, False
    bare, own = _split(next(choice for choice in choices if choice is not NoneType))
    return bare, own, True
