"""One command for Redis, by hand: for what no route can bring about."""

import socket
from urllib.parse import urlsplit


def command(url, *words):
    """Sends a command to the server at `redis://[:password@]host:port`; answers its reply's first line."""
    at = urlsplit(url)
    with socket.create_connection((at.hostname, at.port or 6379), timeout=10) as connection:
        replies = connection.makefile("rb")
        for line in ([("AUTH", at.password)] if at.password else []) + [words]:
            parts = [word.encode() for word in line]
            connection.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
            reply = replies.readline().decode().strip()
            assert not reply.startswith("-"), reply
        return reply
