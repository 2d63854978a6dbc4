"""Opens ten connections and says so in a file. Prints how many of them are open when the rules have been loaded since, and the
server has sent something first in five of them, the client in the others."""

import pathlib
import socket
import sys
import time

from support import until_it_listens

opened, loaded = map(pathlib.Path, sys.argv[1:])
until_it_listens()
connections = [socket.create_connection(("10.9.0.1", 443), timeout=5) for _ in range(10)]
for connection in connections[:5]:
    connection.sendall(b"talk")
    connection.recv(1)
opened.touch()
while not loaded.exists():
    time.sleep(0.05)
time.sleep(1)


def is_open(connection):
    connection.settimeout(2)
    try:
        connection.sendall(b"talk")
        time.sleep(0.2)
        return bool(connection.recv(1 << 16) and connection.recv(1 << 16))
    except OSError:
        return False


print("from before the rules", sum(map(is_open, connections)))
