"""The exceptions of the package. Each one is a :class:`TallyError`; most are also the built-in
exception that a caller would expect."""

from __future__ import annotations


class TallyError(Exception):
    """A call failed; the text is one sentence.

    Control characters in texts of the server are replaced.

    Attributes:
        status: HTTP status of the last answer; None without an answer.
        code: the server's constant for the kind of error, such as "invalid_axis"; or None.
        field: the argument, or the field of the request, that is wrong; or None.
        request_id: id of the last answer, which the server's operator can look up; or None.
        attempts: how often the request was sent.
        output_touched: True if part of a broken answer was written to ``out``. If ``out`` is also
            the input, the caller must fill it again before another call.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        field: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)  # the only argument, so that copies and pickles are complete
        self.status = status
        self.code = code
        self.field = field
        self.request_id = request_id
        self.attempts = 0
        self.output_touched = False


class InvalidArgument(TallyError, ValueError):
    """An argument is invalid; nothing was sent."""


class ConnectFailed(TallyError, ConnectionError):
    """No connection was made: name lookup, refusal, TLS handshake or ``connect_timeout``."""


class ConnectionLost(TallyError, ConnectionError):
    """The connection broke before the answer was complete."""


class CallTimeout(TallyError, TimeoutError):
    """The client's timeout passed."""


class DeadlineExceeded(TallyError, TimeoutError):
    """The call's deadline passed, in the client or in the server (504)."""


class Rejected(TallyError):
    """The server rejected the request (4xx). The request must be changed."""


class Busy(TallyError):
    """The server answered 429 or 503, also to the last retry. Send the request later, or send
    fewer requests at a time.

    Attributes:
        retry_after: seconds to wait, from the answer's Retry-After; None without this header.
    """

    retry_after: float | None = None


class ServerError(TallyError):
    """The server answered with another 5xx. Report it with the request id."""


class BadAnswer(TallyError):
    """The answer does not belong to this request and is not used. Report it with the request
    id."""
