"""A connection whose packets are written by hand. The kernel of the clients has no such connections and would reset them:
its resets are dropped from here on. Scapy's packets do not pass there."""

import logging
import os
import time

logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.all import IP, TCP, IPv6, conf, fragment, send, sr1
from support import at_server, connect, how_much

conf.verb = 0
os.system("nft 'table inet clients { chain output { type filter hook output priority 0; tcp flags rst drop; }; }'")


class Connection:
    """A connection at port 443, whose packets are sent as they are written here."""

    def __init__(self, source, port, before_the_end=lambda _: None, last_flags="A", first_data=b"", window=60000):
        self.window = window
        self.source, self.port, self.sequence, self.answer = source, port, 1000, 0
        syn = self.packet("S", options=[("MSS", 1460), ("SAckOK", b"")])
        answer = sr1(syn, timeout=0.5)
        self.is_open = answer is not None and answer[TCP].flags == "SA"
        if self.is_open:
            self.sequence, self.answer = 1001, answer[TCP].seq + 1
            before_the_end(self)
            last = self.packet(last_flags, data=first_data)
            send(fragment(last, 1400) if first_data else last)

    def beyond(self):
        """Claims that more has arrived than the server sent: for the table the packet is invalid, TCP ignores the claim."""
        end = (self.answer + (1 << 28)) % (1 << 32)
        return [("NOP", None), ("NOP", None), ("SAck", ((end - 100) % (1 << 32), end))]

    def packet(self, flags, ahead=0, options=(), data=b""):
        tcp = TCP(sport=self.port, dport=443, flags=flags, seq=self.sequence + ahead, ack=self.answer, window=self.window,
                  options=list(options))
        network = IPv6(src=self.source, dst="fd00:9::1") if ":" in self.source else IP(src=self.source, dst="10.9.0.1")
        return network / tcp / data


def open_beside_forged_handshakes(source):
    """Another one, who does not see the server's answers, forges three handshakes. Returns how many connections the client can
    open when half-open ones are forgotten."""
    for port in range(9000, 9003):
        for flags, sequence in [("S", 1), ("A", 2)]:
            packet = TCP(sport=port, dport=443, flags=flags, seq=sequence, ack=12345)
            send(IP(src=source, dst="10.9.0.1") / packet)
            time.sleep(0.02)
    time.sleep(7)
    return len([opened for opened in [connect(source, timeout=0.9) for _ in range(10)] if opened])


def send_in_final_acks(source, flags="A"):
    """Sends 58 KiB in the final ACK of each of ten handshakes, and once more. Says how much arrives."""
    connections = [
        Connection(source, port, last_flags=flags, first_data=bytes(60_000)) for port in range(10000, 10010)
    ]
    for connection in connections:
        connection.sequence += 60_000
        send(fragment(connection.packet("PA", data=bytes(60_000)), 1400))
    return how_much(at_server(source)["KiB"])
