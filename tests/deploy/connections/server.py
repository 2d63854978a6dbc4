"""Takes connections at port 443, and says at port 444 what it has of each client: how many connections it ever had and has
now, and the KiB that arrived."""

import collections
import json
import socket
import threading

clients = collections.defaultdict(lambda: {"accepted": 0, "open": 0, "KiB": 0})


def listen(port):
    return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)


def take(connection, client):
    received = 0
    try:
        while part := connection.recv(1 << 16):
            received += len(part)
            client["KiB"] = received // 1024
    except OSError:
        pass
    client["open"] -= 1
    connection.close()


def report(server):
    while True:
        connection = server.accept()[0]
        connection.sendall(json.dumps(clients).encode())
        connection.close()


threading.Thread(target=report, args=(listen(444),), daemon=True).start()
server = listen(443)
while True:
    connection, address = server.accept()
    client = clients[address[0].removeprefix("::ffff:")]
    client["accepted"] += 1
    client["open"] += 1
    threading.Thread(target=take, args=(connection, client), daemon=True).start()
