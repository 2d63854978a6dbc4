"""A connection whose packets are written by hand. The kernel of the clients has no such connections and would reset them:
its resets are dropped from here on. Scapy's packets do not pass there."""

import logging
import os

logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.all import IP, TCP, IPv6, conf, fragment, send, sr1

conf.verb = 0
os.system("nft 'table inet clients { chain output { type filter hook output priority 0; tcp flags rst drop; }; }'")


class Connection:
    """A connection at port 443, whose packets are sent as they are written here."""

    def __init__(self, source, port, before_the_end=lambda _: None, first_data=b""):
        self.source, self.port, self.sequence, self.answer = source, port, 1000, 0
        syn = self.packet("S", options=[("MSS", 1460), ("SAckOK", b"")])
        answer = sr1(syn, timeout=0.5)
        self.is_open = answer is not None and answer[TCP].flags == "SA"
        if self.is_open:
            self.sequence, self.answer = 1001, answer[TCP].seq + 1
            before_the_end(self)
            last = self.packet("A", data=first_data)
            send(fragment(last, 1400) if first_data else last)

    def beyond(self):
        """Claims that more has arrived than the server sent: for the table the packet is invalid, TCP ignores the claim."""
        end = (self.answer + (1 << 28)) % (1 << 32)
        return [("NOP", None), ("NOP", None), ("SAck", ((end - 100) % (1 << 32), end))]

    def packet(self, flags, ahead=0, options=(), data=b""):
        tcp = TCP(sport=self.port, dport=443, flags=flags, seq=self.sequence + ahead, ack=self.answer, window=60000,
                  options=list(options))
        network = IPv6(src=self.source, dst="fd00:9::1") if ":" in self.source else IP(src=self.source, dst="10.9.0.1")
        return network / tcp / data
