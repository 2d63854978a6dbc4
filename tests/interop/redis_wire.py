"""Sends one command to Redis, to create states that no route can create."""

import socket
from urllib.parse import urlsplit


def command(url, *arguments):
    """Sends a command to the server at `redis://[:password@]host:port`. Returns the first line of its reply."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port or 6379), timeout=10) as connection:
        replies = connection.makefile("rb")
        for request in ([("AUTH", address.password)] if address.password else []) + [arguments]:
            encoded = [argument.encode() for argument in request]
            bulk_strings = b"".join(b"$%d\r\n%s\r\n" % (len(argument), argument) for argument in encoded)
            connection.sendall(b"*%d\r\n" % len(encoded) + bulk_strings)
            reply = replies.readline().decode().strip()
            assert not reply.startswith("-"), reply
        return reply
