"""Errors of the store that a cluster commits to."""

from penstock.errors.base import RequestError, UnavailableError


class StoreUnavailable(UnavailableError):
    """The store did not answer, so the outcome of the request is unknown.

    Cause: the store is down, overloaded or unreachable from this machine.
    Do: check the store and the network.  A node repeats the same request until it knows the outcome;
        nothing is acknowledged meanwhile.
    """

    code = "STORE_UNAVAILABLE"
    sentence = "the store {store} did not answer: {why}; the request is repeated until it does"
    store: str
    why: str


class StoreRefused(RequestError):
    """The store answered, and refused the request.

    Cause: wrong credentials, missing rights, a bucket or database that does not exist, or an invalid option.
    Do: correct what the message names; ``penstock cluster probe URL`` checks a store without a cluster.
    """

    code = "STORE_REFUSED"
    sentence = "the store {store} refused the request: {why}"
    store: str
    why: str


class StoreUnsafe(RequestError):
    """The store does not keep what a cluster relies on, so acknowledged messages could be lost.

    Cause: two writers created the same name, a write was not visible to the next read, or PostgreSQL has no
        synchronous standby.
    Do: use a store that passes ``penstock cluster probe URL``; docs/cluster.md lists them.
    """

    code = "STORE_UNSAFE"
    sentence = "the store {store} is not safe for a cluster: {why}"
    store: str
    why: str
