"""Ends connections later than conntrack remembers them, and prints how many of them can be opened again from the same
port three seconds after."""

import socket
import time

from support import until_it_listens

PORTS = range(20000, 20005)


def connect(port):
    return socket.create_connection(("10.9.0.1", 443), timeout=0.8, source_address=("10.9.0.2", port))


until_it_listens()
connections = [connect(port) for port in PORTS]
for connection in connections:
    connection.sendall(b"bye")
    connection.recv(1)
time.sleep(12)
for connection in connections:
    connection.close()
time.sleep(3)
again = 0
for port in PORTS:
    try:
        connect(port).close()
        again += 1
    except OSError:
        pass
print("opened again:", again)
