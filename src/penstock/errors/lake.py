"""The lake, the pipelines that fill it, and SQL queries."""

from penstock.errors.base import PenstockError, RequestError, UnavailableError


class OffsetsMissing(RequestError):
    """A query reads offsets that are in neither the log nor the lake.

    Cause: retention deleted them before they were archived.
    Do: read from the first offset after them, or skip them with ``on_gap=skip``, which records them in the
        topic ``__gaps``; ``retention_waits_for_archive`` prevents new gaps.
    """

    code = "OFFSETS_MISSING"
    sentence = (
        "offsets {start} up to {end} of {topic}:{partition} are in neither the log nor the lake; "
        "read from {end} on, or set on_gap=skip to continue without them"
    )
    topic: str
    partition: int
    start: int
    end: int


class LakeUnusable(RequestError):
    """The lake, or a table in it, cannot be opened or written; its existing data is unchanged.

    Cause: missing permissions, a wrong path or URI, missing credentials, or a broker without a lake.
    Do: correct the path with the option or setting ``lake``, or the permissions, and start again; nothing is
        lost or written twice.
    """

    code = "LAKE_UNUSABLE"
    sentence = "the lake {lake!r} cannot be used: {why}"
    lake: str
    why: str


class LakeUnreachable(UnavailableError):
    """The object store of the lake does not respond, or is overloaded; its existing data is unchanged.

    Cause: the store is being restarted, the network is down, or there are no credentials and no server that
        issues them.
    Do: check the endpoint, the network and the credentials. Jobs retry for about a minute; after that start
        them again: nothing is lost or written twice.
    """

    code = "LAKE_UNREACHABLE"
    sentence = "the object store of the lake {lake!r} cannot be reached: {why}"
    lake: str
    why: str


class NotArchived(RequestError):
    """Retention deleted records before they were archived; the lake would have a gap.

    Cause: the archive pipeline did not run for longer than the topic keeps its records.
    Do: run it with ``on_gap = "skip"``, which records the gap and continues after it; to prevent new gaps,
        set ``retention_waits_for_archive`` on the topic.
    """

    code = "NOT_ARCHIVED"
    sentence = (
        "offsets {start} up to {end} of {topic}:{partition} were deleted before they were archived; "
        'continue after them with on_gap = "skip", and set retention_waits_for_archive on the topic'
    )
    topic: str
    partition: int
    start: int
    end: int


class PipelineRunning(RequestError):
    """A pipeline with this name is already running.

    Cause: two runs with one name would do the same work twice, so the second is refused.
    Do: stop the first one, or use another name; after a crash the name is free at once on the same machine,
        and after 30 seconds on others.
    """

    code = "PIPELINE_RUNNING"
    sentence = (
        "pipeline {name!r} is already running on {host} (process {pid}); stop it: penstock pipeline stop "
        "{name}, or run this one with --name"
    )
    name: str
    host: str
    pid: int


class PipelineFailed(RequestError):
    """A pipeline ended with an error.

    Cause: its input, its settings, your function or Spark; the message has the first line of the error.
    Do: correct the problem and run the pipeline again; it continues where it stopped.
    """

    code = "PIPELINE_FAILED"
    sentence = "pipeline {name!r} failed: {why}"
    name: str
    why: str


class QueryInvalid(RequestError):
    """A SQL query is invalid.

    Cause: an unknown topic, column or function, or a syntax error.
    Do: correct what the message names; ``\\d`` in the shell of ``penstock sql`` lists topics and columns.
    """

    code = "QUERY_INVALID"
    sentence = "this query is invalid: {why}"
    why: str


class QueryFailed(RequestError):
    """A SQL query started but did not finish.

    Cause: a value that the query cannot process, a broker or lake file that cannot be read, or a result that
        is too large; the message says which.
    Do: correct what the message names and run the query again; queries change nothing.
    """

    code = "QUERY_FAILED"
    sentence = "the query failed: {why}"
    why: str


class SqlUnavailable(UnavailableError):
    """No process on the server's machine answers SQL, or it is still starting.

    Cause: the server runs without ``--archive``, Spark has not started yet (it takes some 20 seconds), or the
        process has ended.
    Do: start ``penstock serve --archive``, or ``penstock sql --keep`` beside the server, and try again; in a
        cluster, ask the node on whose machine it runs.
    """

    code = "SQL_UNAVAILABLE"
    sentence = (
        "SQL is not available: {why}; start one with penstock serve --archive, "
        "or with penstock sql --keep beside the server"
    )
    why: str


class LakeDamaged(PenstockError):
    """A file that belongs to a table of the lake is damaged or missing.

    Cause: the disk returned wrong bytes, or the file was changed or removed.
    Do: restore the file from a backup; ``penstock lake check`` names every such file and its offsets. All
        other files stay readable, and archiving continues.
    """

    code = "LAKE_DAMAGED"
    sentence = "the lake file {path!r} cannot be read: {why}; restore it from a backup"
    path: str
    why: str
