"""Schemas: parsing, compatibility, validation of values, and the state of a registry.

    formats.py          what every kind of schema offers; ``parse`` loads the module of a kind at first use
    avro.py, json_schema.py, protobuf.py         one kind each, on a library
    json_limits.py      JSON schemas and values that would take too long
    avro_rules.py, json_rules.py, protobuf_rules.py   what a reader of one version can read of another
    protobuf_text.py    a .proto file from a descriptor
    mismatch.py         the error of a value that does not match
    values.py           whether the values of a topic match its schemas
    inference.py        a JSON Schema from examples
    registry.py         subjects, versions, ids, levels and modes: a state machine

No I/O and no clock.  The libraries (``penstock[schema]``) are imported when the first schema is parsed.
"""
