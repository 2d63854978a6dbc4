"""Takes connections at port 443, and says at port 444 what it has of each client: how many connections it ever had and has
now, and the bytes that arrived, in datagrams at the port of another service, too. It sends something every 100 ms to clients
that ask it to talk, and closes the connection of one that says bye."""

import collections
import json
import socket
import threading
import time

clients = collections.defaultdict(lambda: {"accepted": 0, "open": 0, "bytes": 0})


def listen(port):
    return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)


def take(connection, client):
    try:
        while part := connection.recv(1 << 16):
            client["bytes"] += len(part)
            if part == b"bye":
                break
            while part == b"talk":
                connection.sendall(b"!")
                time.sleep(0.1)
    except OSError:
        pass
    client["open"] -= 1
    connection.close()


def report(server):
    while True:
        connection = server.accept()[0]
        connection.sendall(json.dumps(clients).encode())
        connection.close()


def take_datagrams(port):
    service = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    service.bind(("10.9.0.1", port))
    while True:
        datagram, address = service.recvfrom(1 << 16)
        clients[address[0]]["bytes"] += len(datagram)
        service.sendto(b"", address)


threading.Thread(target=take_datagrams, args=(51820,), daemon=True).start()
threading.Thread(target=report, args=(listen(444),), daemon=True).start()
server = listen(443)
while True:
    connection, address = server.accept()
    client = clients[address[0].removeprefix("::ffff:")]
    client["accepted"] += 1
    client["open"] += 1
    threading.Thread(target=take, args=(connection, client), daemon=True).start()
