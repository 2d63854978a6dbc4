"""Acknowledges what the server sends by nothing but repeated FINs, which conntrack does not see. Prints how many of three
connections of a client are open when conntrack has forgotten them: of one that always takes data, and of one that takes none
while it is forgotten, and sends ACKs then."""

import time

from raw_connection import Connection
from scapy.all import TCP, AsyncSniffer, send
from support import at_server, until_it_listens

READING, PAUSING = "10.9.0.3", "10.9.0.4"


def take(packet):
    """Notes what has arrived."""
    if TCP in packet and packet[TCP].sport == 443 and packet[TCP].payload:
        connection = connections.get(packet[TCP].dport)
        if connection:
            connection.answer = packet[TCP].seq + len(packet[TCP].payload)


until_it_listens()
connections = {}
for port in range(10000, 10006):
    connections[port] = Connection(PAUSING if port % 2 else READING, port, window=0)
AsyncSniffer(iface="client", prn=take, store=False).start()
time.sleep(0.5)
for connection in connections.values():
    send(connection.packet("PA", data=b"talk"))
    connection.sequence += 4
began = time.monotonic()
while (age := time.monotonic() - began) < 12:
    for connection in connections.values():
        is_forgotten = connection.source == PAUSING and 1.5 < age < 8
        connection.window = 0 if is_forgotten else 1000
        send(connection.packet("FA", ahead=-1))
        if is_forgotten and age > 6:
            send(connection.packet("A"))
    time.sleep(0.2)
print("connections that only FINs acknowledge:", at_server(READING)["open"], "and", at_server(PAUSING)["open"])
