"""What the programs of clients share."""

import json
import os
import socket
import subprocess
import time


def at_server(client):
    """What the server has of a client, when that has not changed for half a second."""
    last, since = None, time.monotonic()
    while time.monotonic() < since + 0.5:
        with socket.create_connection(("10.9.0.1", 444), timeout=10) as connection:
            answer = json.loads(connection.makefile().read()).get(client)
        if answer != last:
            last, since = answer, time.monotonic()
        time.sleep(0.05)
    last = last or {"accepted": 0, "open": 0, "bytes": 0}
    return {**last, "KiB": last["bytes"] // 1024}


def run_at_server(*command):
    """Runs a command in the server's network. Returns what it prints."""
    enter = ["nsenter", "--net=" + os.environ["NETWORK"]]
    return subprocess.run([*enter, *command], check=True, capture_output=True, text=True).stdout


def until_it_listens():
    """Waits for the server."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return at_server("")
        except OSError:
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.05)


def connect(source, timeout=10):
    server = "fd00:9::1" if ":" in source else "10.9.0.1"
    try:
        return socket.create_connection((server, 443), timeout=timeout, source_address=(source, 0))
    except (ConnectionRefusedError, TimeoutError):
        return None


def close(connection):
    """Has the server end the connection: it counts for ten seconds more."""
    connection.sendall(b"bye")
    connection.recv(1)
    connection.close()


def how_much(arrived):
    """Compares KiB that arrived with a burst."""
    return "the burst" if 100 <= arrived <= 200 else "less than the burst" if arrived < 100 else f"{arrived} KiB"
