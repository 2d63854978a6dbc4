"""Clients that send the last packet of a handshake again, where the server keeps nothing of a handshake but its cookie. Prints
how many connections they open by it: in turn, and at once after each was closed."""

import time

from raw_connection import Connection
from scapy.all import send
from support import at_server, until_it_listens


def open_in_turn(source):
    connection = Connection(source, 10000)
    for _ in range(150):
        send([connection.packet("R"), connection.packet("A")])
        time.sleep(0.01)
    return at_server(source)["accepted"]


def open_what_was_closed(source):
    for port in range(10000, 10010):
        connection = Connection(source, port)
        if connection.is_open:
            again = connection.packet("A")
            time.sleep(0.05)
            send(connection.packet("FA"))
            time.sleep(0.2)
            connection.sequence, connection.answer = connection.sequence + 1, connection.answer + 1
            send(connection.packet("A"))
            time.sleep(0.05)
            send(again)
    return at_server(source)["open"]


until_it_listens()
print("connections in turn by a last packet:", open_in_turn("10.9.0.3"))
print("connections at once that were closed before:", open_what_was_closed("10.9.0.4"))
