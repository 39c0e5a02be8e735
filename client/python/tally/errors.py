"""What a call raises. Every exception is a :class:`TallyError`; most are also the built-in
exception that a caller would expect."""

from __future__ import annotations


class TallyError(Exception):
    """A call failed; its text is one sentence.

    Texts that came from the server have their control characters replaced.

    Attributes:
        status: HTTP status of the last answer; None if there was none.
        code: the server's fixed word for what is wrong ("invalid_axis"), else None.
        field: the argument or field to blame, else None.
        request_id: of the last answer: quote it to whoever runs the server; else None.
        attempts: how often the request was sent.
        output_touched: part of a broken answer was written to ``out``. Where that was the input
            too, it must be filled again before the call is repeated.
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
        super().__init__(message)  # the only argument, so that copies and pickles are whole
        self.status = status
        self.code = code
        self.field = field
        self.request_id = request_id
        self.attempts = 0
        self.output_touched = False


class InvalidArgument(TallyError, ValueError):
    """The caller's mistake, found before anything was sent."""


class ConnectFailed(TallyError, ConnectionError):
    """No connection: name, refusal, TLS handshake, connect_timeout."""


class ConnectionLost(TallyError, ConnectionError):
    """The connection broke before the answer was whole."""


class CallTimeout(TallyError, TimeoutError):
    """The client's timeout passed."""


class DeadlineExceeded(TallyError, TimeoutError):
    """The call's deadline passed, here or in the server (504)."""


class Rejected(TallyError):
    """The server refused the request (4xx): mend it."""


class Busy(TallyError):
    """429 or 503, also to the last retry: later, or fewer at a time."""


class ServerError(TallyError):
    """Any other 5xx: report it, with the request id."""


class BadAnswer(TallyError):
    """Not the answer to this request, so it is not used: report it, with the request id."""
