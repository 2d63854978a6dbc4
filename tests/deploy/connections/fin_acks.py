"""Acknowledges what the server sends by nothing but repeated FINs, which conntrack does not see. Prints how many of three
connections are open when conntrack has forgotten them."""

import time

from raw_connection import Connection
from scapy.all import TCP, AsyncSniffer, send
from support import at_server, until_it_listens

SOURCE = "10.9.0.3"


def take(packet):
    """Notes what has arrived."""
    if TCP in packet and packet[TCP].sport == 443 and packet[TCP].dport in connections:
        connections[packet[TCP].dport].answer = packet[TCP].seq + len(packet[TCP].payload)


until_it_listens()
connections = {port: Connection(SOURCE, port, window=0) for port in range(10000, 10003)}
AsyncSniffer(iface="client", prn=take, store=False).start()
time.sleep(0.5)
for connection in connections.values():
    send(connection.packet("PA", data=b"talk"))
    connection.sequence += 4
    connection.window = 1000
until = time.monotonic() + 10
while time.monotonic() < until:
    send([connection.packet("FA", ahead=-1) for connection in connections.values()])
    time.sleep(0.3)
print("connections that only FINs acknowledge:", at_server(SOURCE)["open"])
