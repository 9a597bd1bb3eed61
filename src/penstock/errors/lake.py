"""The lake, the pipelines that fill it, and queries over topics."""

from penstock.errors.base import PenstockError, RequestError


class OffsetsMissing(RequestError):
    """A query reads offsets that are in neither the log nor the lake.

    Cause: retention has deleted them, and they were not archived before.
    Do: read from behind them on; or let the query skip them, with ``on_gap=skip``, which writes them down
        in the topic ``__gaps``; ``retention_waits_for_archive`` keeps it from happening again.
    """

    code = "OFFSETS_MISSING"
    sentence = (
        "offsets {start} up to {end} of {topic}:{partition} are in neither the log nor the lake; "
        "read from {end} on, or set on_gap=skip to go on without them"
    )
    topic: str
    partition: int
    start: int
    end: int


class LakeUnusable(RequestError):
    """The lake, or a table in it, cannot be opened or written; what it held before is untouched.

    Cause: missing rights, a wrong path or URI, no credentials for it, or a broker that has no lake.
    Do: correct the path with the option or setting ``lake``, or the rights; then start again: nothing is
        lost, and nothing is there twice.
    """

    code = "LAKE_UNUSABLE"
    sentence = "the lake {lake!r} cannot be used: {why}"
    lake: str
    why: str


class NotArchived(RequestError):
    """Retention has deleted records that were not archived yet; the lake would have a gap.

    Cause: the archive did not run for longer than the topic keeps its records.
    Do: run it with ``on_gap = "skip"``, which puts the gap on record and goes on behind it; for the future
        set ``retention_waits_for_archive`` on the topic.
    """

    code = "NOT_ARCHIVED"
    sentence = (
        "offsets {start} to {end} (before it) of {topic}:{partition} were deleted before they were archived; "
        'go on behind them with on_gap = "skip", and set retention_waits_for_archive on the topic'
    )
    topic: str
    partition: int
    start: int
    end: int


class PipelineRunning(RequestError):
    """Somebody runs a pipeline of this name already.

    Cause: two runs of one name would do the same work twice, so the second is refused.
    Do: stop the first one, or give this one a name of its own; a run that was killed frees its name at
        once on its own machine, and after 30 seconds on others.
    """

    code = "PIPELINE_RUNNING"
    sentence = (
        "pipeline {name!r} runs already, on {host} (process {pid}); stop it with: penstock pipeline stop "
        "{name}, or run this one with --name"
    )
    name: str
    host: str
    pid: int


class PipelineFailed(RequestError):
    """A pipeline has ended with an error.

    Cause: what it worked on, its settings, your own function or Spark; the sentence has the first line of it.
    Do: correct what it names, and run the pipeline again: it goes on where it was.
    """

    code = "PIPELINE_FAILED"
    sentence = "pipeline {name!r} has failed: {why}"
    name: str
    why: str


class QueryInvalid(RequestError):
    """A query over topics cannot be run as it is written.

    Cause: a topic, a column or a function that is not there, or words that are not SQL.
    Do: correct what the sentence names; ``\\d`` in the shell of ``penstock sql`` lists topics and columns.
    """

    code = "QUERY_INVALID"
    sentence = "this query cannot be run: {why}"
    why: str


class QueryFailed(RequestError):
    """A query over topics was begun, and could not be finished.

    Cause: a value that the query cannot work on, a broker or a file of the lake that cannot be read, or
        a result that is larger than what fits; the sentence says which.
    Do: correct what it names, and ask again: a query changes nothing.
    """

    code = "QUERY_FAILED"
    sentence = "the query has failed: {why}"
    why: str


class LakeDamaged(PenstockError):
    """A file that a table of the lake names is damaged or missing.

    Cause: the disk returned other bytes than were written, or somebody changed or removed the file.
    Do: put the file back from a copy; ``penstock lake check`` names every such file and the offsets in it.
        All other files stay readable, and the archive goes on.
    """

    code = "LAKE_DAMAGED"
    sentence = "the file {path!r} of the lake cannot be read: {why}; put it back from a copy"
    path: str
    why: str
