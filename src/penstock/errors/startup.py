"""What keeps a broker from being opened, a server from starting, or a closed one from being used."""

from penstock.errors.base import RequestError


class DirectoryInUse(RequestError):
    """Another process (or another broker of this one) has the data directory open.

    Cause: a broker is running on this directory, or one of this process was not closed.
    Do: close the other broker, connect to it instead, or open another directory.
    """

    code = "DIRECTORY_IN_USE"
    sentence = (
        "data directory {directory!r} is open in another broker (pid {pid}); "
        "close it, or use another directory"
    )
    directory: str
    pid: str


class DirectoryUnusable(RequestError):
    """The data directory cannot be created or written, or its format is newer than this program.

    Cause: missing rights, a file in the place of the directory, or data written by a newer version.
    Do: correct the rights or the path, or run the version that wrote the data, or a newer one.
    """

    code = "DIRECTORY_UNUSABLE"
    sentence = "data directory {directory!r} cannot be used: {why}"
    directory: str
    why: str


class InvalidConfiguration(RequestError):
    """The configuration of a server has problems; all of them are named, each with its place.

    Cause: a setting that does not exist, or a value that it may not have, in the file, in a variable of
        the environment or in a flag.
    Do: correct what is named, and start again; ``penstock config show`` says where each value comes from.
    """

    code = "CONFIGURATION_INVALID"
    sentence = "the configuration cannot be used:\n{problems}"
    problems: str


class AddressUnusable(RequestError):
    """A server cannot listen where it was told to.

    Cause: another program has the port, the host is not one of this machine, or ports below 1024 are
        not for this user.
    Do: stop the other program, or choose another address with the setting or flag that is named; port 0
        takes a free one, and ``off`` does without the listener.
    """

    code = "ADDRESS_UNUSABLE"
    sentence = (
        "cannot listen on {address}: {why}; change listen.{listener} (--{listener} HOST:PORT), "
        "or turn it off (--{listener} off)"
    )
    listener: str
    address: str
    why: str


class ExtraMissing(RequestError):
    """Something that only a part of Penstock needs is not installed.

    Cause: the Spark pipeline, say, is used, and Penstock was installed without it.
    Do: install the extra that the sentence names.
    """

    code = "EXTRA_MISSING"
    sentence = "{what} is not installed; run: pip install 'penstock[{extra}]'"
    what: str
    extra: str


class Closed(RequestError):
    """The broker or the consumer was closed.

    Cause: a call after ``close()`` or after the ``with`` block has ended.
    Do: open a new broker or consumer; end the threads that use one before closing it.
    """

    code = "CLOSED"
    sentence = "the {what} is closed; open a new one"
    what: str
