"""Prints how many of ten connections each client may have, how many of 150 a client may open that closes each at once, and
how much of two megabytes a client may send, to nginx and to another service."""

import socket
import time

from support import at_server, until_it_listens


def connect(source, timeout=10):
    server = "fd00:9::1" if ":" in source else "10.9.0.1"
    try:
        return socket.create_connection((server, 443), timeout=timeout, source_address=(source, 0))
    except (ConnectionRefusedError, TimeoutError):
        return None


def open_ten(source):
    connections = [connect(source) for _ in range(10)]
    return [connection for connection in connections if connection]


def close(connection):
    """Ends the connection at both sides: as soon as the kernel looks again, it does not count."""
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
    connection.close()


def open_and_close(source):
    for opened in range(150):
        connection = connect(source, timeout=0.9)
        if not connection:
            return opened
        close(connection)
        time.sleep(0.01)
    return 150


def send_all(source):
    connection = connect(source, timeout=3)
    if not connection:
        return "no connection"
    connection.settimeout(1)
    try:
        connection.sendall(bytes(2_000_000))
    except TimeoutError:
        pass
    arrived = at_server(source)["KiB"]
    return "the burst" if 100 <= arrived <= 200 else "its rest" if arrived < 100 else f"{arrived} KiB"


def send_datagrams(source):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.bind((source, 0))
        client.settimeout(1)
        for _ in range(2000):
            client.sendto(bytes(1000), ("10.9.0.1", 51820))
            try:
                client.recv(1)
            except TimeoutError:
                break
    return f"{at_server(source)['KiB']} KiB"


until_it_listens()
held = open_ten("10.9.0.2")
print("10.9.0.2", len(held))
kept = [held]
for source in ["10.9.0.3", "fd00:9:1:1::2", "fd00:9:1:2::2", "fd00:9:2:1::2"]:
    kept.append(open_ten(source))
    print(source, len(kept[-1]))
close(held.pop())
deadline = time.monotonic() + 30
while not (again := connect("10.9.0.2")):
    assert time.monotonic() < deadline, "a closed connection still counts"
    time.sleep(0.5)
print("10.9.0.2", len(held) + 1)
for source in ["10.9.0.4", "fd00:9:3:1::2"]:
    print(source, open_and_close(source), "in turn")
for source in ["10.9.0.5", "fd00:9:4:1::2", "fd00:9:4:2::2", "fd00:9:4:3::2", "fd00:9:5:1::2"]:
    print(source, send_all(source))
print("10.9.0.6", send_datagrams("10.9.0.6"), "to another service")
