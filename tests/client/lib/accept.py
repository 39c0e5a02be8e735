"""A listener on a free port; each connection is served by its own thread."""

import socket
import threading


def listen(serve):
    """Call serve(connection) for every connection. Returns the listener; closing the listener ends
    its thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listener, serve), daemon=True).start()
    return listener


def _accept(listener, serve):
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=serve, args=(connection,), daemon=True).start()
