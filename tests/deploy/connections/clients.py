"""Prints how many of ten connections each client may have, and how much of two megabytes a client may send, to nginx and to
another service."""

import socket
import time

from support import at_server, close, connect, how_much, until_it_listens


def open_ten(source):
    connections = [connect(source) for _ in range(10)]
    return [connection for connection in connections if connection]


def send_all(source):
    connection = connect(source, timeout=3)
    if not connection:
        return "no connection"
    connection.settimeout(1)
    try:
        connection.sendall(bytes(2_000_000))
    except TimeoutError:
        pass
    return how_much(at_server(source)["KiB"])


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
for source in ["10.9.0.5", "fd00:9:4:1::2", "fd00:9:4:2::2", "fd00:9:4:3::2", "fd00:9:5:1::2"]:
    print(source, send_all(source))
print("10.9.0.6", send_datagrams("10.9.0.6"), "to another service")
