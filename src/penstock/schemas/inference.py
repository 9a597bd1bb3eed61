"""A JSON Schema from examples: ``penstock schema infer``.

A field is required if every object at its place has it; a place that has several types allows all of them.
The result describes the examples and is a start for an author: no formats, ranges or enumerations are
guessed.  Objects take no other properties, so that fields can be added compatibly later.

Cost: one pass over the values.  Limits: ``DEPTH_MAX`` levels, and ``PROPERTIES_MAX`` names of an object,
beyond which it is taken for a map.
"""

from typing import Any, Final, Self

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
DEPTH_MAX: Final = 50
PROPERTIES_MAX: Final = 1000
_TYPES: Final = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


class Place:
    """The values that were seen at one position of the examples."""

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._types: dict[str, None] = {}  # In the order in which they came.
        self._objects = 0
        self._counts: dict[str, int] = {}  # How many objects have a property.
        self._properties: dict[str, Place] = {}
        self._items: Place | None = None

    def see(self, value: Any) -> Self:
        self._types[_TYPES[type(value)]] = None
        if self._depth == DEPTH_MAX:
            return self
        if isinstance(value, dict):
            self._objects += 1
            for name, inner in value.items():
                self._counts[name] = self._counts.get(name, 0) + 1
                self._properties.setdefault(name, Place(self._depth + 1)).see(inner)
        elif isinstance(value, list):
            for inner in value:
                if self._items is None:
                    self._items = Place(self._depth + 1)
                self._items.see(inner)
        return self

    def schema(self) -> dict[str, Any]:
        """The schema of everything that was seen."""
        types = [each for each in self._types if each != "integer" or "number" not in self._types]
        found: dict[str, Any] = {"type": types[0] if len(types) == 1 else types} if types else {}
        if self._objects:
            found |= self._object()
        if self._items is not None:
            found["items"] = self._items.schema()
        return found

    def _object(self) -> dict[str, Any]:
        if len(self._properties) > PROPERTIES_MAX:
            return {}
        required = [name for name, count in self._counts.items() if count == self._objects]
        found: dict[str, Any] = {
            "properties": {name: place.schema() for name, place in self._properties.items()}
        }
        if required:
            found["required"] = required
        return {**found, "additionalProperties": False}


def document(place: Place) -> dict[str, Any]:
    return {"$schema": DRAFT, **place.schema()}
