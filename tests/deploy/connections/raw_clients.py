"""Clients whose packets TCP and the kernel's table of connections understand differently. Prints what each of them gets
past the limits: KiB in packets that the table takes for invalid, connections from ports that it takes for used, and
connections at once that it takes for ended."""

import logging
import os
import time

logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.all import IP, TCP, conf, send, sr1

from support import at_server, until_it_listens

conf.verb = 0

class Connection:
    """A connection at port 443, whose packets are sent as they are written here."""

    def __init__(self, source, port):
        self.source, self.port, self.sequence, self.answer = source, port, 1000, 0
        syn = self.packet("S", options=[("MSS", 1460), ("SAckOK", b"")])
        answer = sr1(syn, timeout=0.5)
        self.is_open = answer is not None and answer[TCP].flags == "SA"
        if self.is_open:
            self.sequence, self.answer = 1001, answer[TCP].seq + 1
            send(self.packet("A"))

    def beyond(self):
        """Claims that more has arrived than the server sent: for the table the packet is invalid, TCP ignores the claim."""
        end = (self.answer + (1 << 28)) % (1 << 32)
        return [("NOP", None), ("NOP", None), ("SAck", ((end - 100) % (1 << 32), end))]

    def packet(self, flags, ahead=0, options=(), data=b""):
        tcp = TCP(sport=self.port, dport=443, flags=flags, seq=self.sequence + ahead, ack=self.answer, window=60000,
                  options=list(options))
        return IP(src=self.source, dst="10.9.0.1") / tcp / data


def send_data(source):
    connection, data = Connection(source, 10000), bytes(1400)
    for _ in range(20):
        send([connection.packet("PA", ahead, connection.beyond(), data) for ahead in range(0, 20 * len(data), len(data))])
        connection.sequence += 20 * len(data)
        time.sleep(0.05)
    return at_server(source)["KiB"]


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
            # The end of what is to come, and a reset in the window that is not at its place.
            send([connection.packet("FA", ahead=20000), connection.packet("R", ahead=20100)])
            time.sleep(1.5)
    return at_server(source)["open"]


# The kernel of the clients has no such connections, and would reset them. Scapy's packets do not pass here.
os.system("nft 'table inet clients { chain output { type filter hook output priority 0; tcp flags rst drop; }; }'")
until_it_listens()
print("KiB in invalid packets:", send_data("10.9.0.2"))
print("connections in turn from used ports:", open_in_turn("10.9.0.3"))
print("connections at once that seem ended:", open_at_once("10.9.0.4"))
