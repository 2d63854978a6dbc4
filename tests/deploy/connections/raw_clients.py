"""Clients whose packets TCP and conntrack understand differently. Prints what each of them gets
past the limits: bytes in packets that the table may take for invalid, connections from ports that it takes for used, and
connections at once that it takes for ended, by the client or by the server, or by a header that TCP does not read.
Last, what a client gets whose address another one uses."""

import socket
import time

from raw_connection import Connection, open_beside_forged_handshakes, send_in_final_acks
from scapy.all import IP, TCP, IPv6, Raw, fragment, raw, send
from support import at_server, how_much, until_it_listens


def send_data(source):
    connection, data = Connection(source, 10000), bytes(1400)
    for _ in range(20):
        send([connection.packet("PA", ahead, connection.beyond(), data) for ahead in range(0, 20 * len(data), len(data))])
        connection.sequence += 20 * len(data)
        time.sleep(0.05)
    return how_much(at_server(source)["KiB"])


def open_in_turn(source):
    for opened in range(150):
        connection = Connection(source, 10000 + opened % 2)
        if not connection.is_open:
            break
        send(connection.packet("RA", options=connection.beyond()))
    return at_server(source)["accepted"]


def open_at_once(source):
    for port in range(10000, 10010):
        connection = Connection(source, port)
        if connection.is_open:
            # Two ends of what is to come, as if each side had sent one, and a reset in the window that is not at its place.
            ends = [connection.packet("FA", ahead=20000), connection.packet("FA", ahead=20000), connection.packet("A")]
            send([*ends, connection.packet("R", ahead=20100)], inter=0.01)
            time.sleep(1.5)
    return at_server(source)["open"]


def acknowledge_too_little(connection):
    """The server answers with a reset, and yet takes the right packet after it."""
    connection.answer -= 100
    send(connection.packet("A"))
    connection.answer += 100
    time.sleep(0.05)


def open_while_the_server_resets(source):
    for port in range(10000, 10010):
        Connection(source, port, acknowledge_too_little)
    return at_server(source)["open"]


def open_and_authenticate_a_reset(source):
    """Sends each reset behind an authentication header of IPv6, which no TCP of the server ever sees."""
    for port in range(10000, 10010):
        connection = Connection(source, port)
        if connection.is_open:
            reset = raw(connection.packet("R").payload)
            next_header_and_length = bytes([6, 1])
            header = Raw(next_header_and_length + bytes(10))
            send(IPv6(src=source, dst="fd00:9::1", nh=51) / header / Raw(reset))
            time.sleep(1.5)
    return at_server(source)["open"]


def use_up_the_bytes_of_another(client):
    """Half a connection in the name of a client that has one, whose first packet is sent again with a lot of data. Returns how
    much the client can send then."""
    before = at_server(client)["KiB"]
    with socket.create_connection(("10.9.0.1", 443), source_address=(client, 0), timeout=1) as connection:
        connection.sendall(b"first")
        first = IP(src=client, dst="10.9.0.1") / TCP(sport=9999, dport=443, flags="S", seq=1)
        for _ in range(10):
            send(fragment(first / bytes(60000), 1400))
        connection.sendall(bytes(100_000))
        return at_server(client)["KiB"] - before


until_it_listens()
print("sent in packets that may be invalid:", send_data("10.9.0.2"))
print("connections in turn from used ports:", open_in_turn("10.9.0.3"))
print("connections at once that seem ended:", open_at_once("10.9.0.4"))
print("connections at once that the server reset while they opened:", open_while_the_server_resets("10.9.0.5"))
print("connections at once that were reset behind a header:", open_and_authenticate_a_reset("fd00:9:1:1::2"))
print("sent in final ACKs:", send_in_final_acks("10.9.0.7"))
print("sent in FINs in their place:", send_in_final_acks("10.9.0.9", flags="FA"))
print("connections of a client beside forged handshakes:", open_beside_forged_handshakes("10.9.0.8"))
print("KiB of a client whose address is forged:", use_up_the_bytes_of_another("10.9.0.6"))
