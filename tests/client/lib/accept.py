"""A listener on a free port whose connections are each served on a thread of their own."""

import socket
import threading


def listen(serve):
    """Call serve(connection) for every connection; returns the listener. Closing it ends that."""
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
