"""Fields of a schema as Spark types.

Few lines of a schema can name a type again and again: 40 levels of two fields each are 2**40 fields.  So the
text of all types together is limited, and building it ends there.
"""

from collections.abc import Iterable
from typing import Final

from penstock.errors import SchemaInvalid
from penstock.model.schemas import SchemaType

TYPE_LENGTH_MAX: Final = 1 << 17  # Characters.

Field = tuple[str, str]  # Name and type.


def spark_fields(schema: SchemaType, fields: Iterable[Field]) -> dict[str, str]:
    """The Spark types of fields, by name."""
    found: dict[str, str] = {}
    length = 0
    for name, kind in fields:
        found[name] = kind
        length += len(name) + len(kind)
        if length > TYPE_LENGTH_MAX:
            raise SchemaInvalid(type=schema, why="it has too many fields for Spark")
    return found


def spark_struct(schema: SchemaType, fields: Iterable[Field]) -> str:
    """The type of a record with these fields."""
    quoted = ((name.replace("`", "``"), kind) for name, kind in spark_fields(schema, fields).items())
    return f"struct<{','.join(f'`{name}`:{kind}' for name, kind in quoted)}>"
