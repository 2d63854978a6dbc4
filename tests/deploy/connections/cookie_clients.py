"""Clients of a server that keeps nothing of a handshake but its cookie. Prints how many connections they open by sending the
final ACK of a handshake again, in turn, and at once after the server closed each, or by a FIN in its place; what they send in
it; and what a client gets whose address another one uses."""

import time

from raw_connection import Connection, open_beside_forged_handshakes, send_in_final_acks
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
            send(connection.packet("PA", data=b"bye"))
            time.sleep(0.2)
            send(connection.packet("R", ahead=3))
            time.sleep(0.05)
            send(again)
    return at_server(source)["open"]


def open_by_fins(source):
    connection = Connection(source, 10000, last_flags="FA")
    for _ in range(10):
        send([connection.packet("R", ahead=1), connection.packet("FA")])
        time.sleep(0.05)
    return at_server(source)["accepted"]


until_it_listens()
print("connections in turn by a final ACK:", open_in_turn("10.9.0.3"))
print("connections at once that the server had closed:", open_what_was_closed("10.9.0.4"))
print("connections in turn by a FIN in its place:", open_by_fins("10.9.0.5"))
print("sent in final ACKs:", send_in_final_acks("10.9.0.6"))
print("connections of a client beside forged handshakes:", open_beside_forged_handshakes("10.9.0.7"))
