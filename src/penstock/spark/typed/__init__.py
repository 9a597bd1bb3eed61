"""Topics whose values have a schema in the registry: their fields as columns.

typed_topic.py      what a reader needs to know of a typed topic
topic_schema.py     the schema of a topic, as it is planned with and sent to executors
field_columns.py    names and types of the columns
written_values.py   a value, of any version of the schema, read as the planned version
protobuf_values.py  the same for Protobuf
field_arrays.py     Python's values as Arrow arrays, and which rows do not fit
typed_rows.py       the columns of a batch of rows, and why rows are invalid
"""
