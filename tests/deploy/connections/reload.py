"""Prints how many packets come in connections that conntrack would remember for days, when the rules were loaded again."""

from support import connect, run_at_server, until_it_listens

PROBE = """table inet probe {
    chain input {
        type filter hook input priority 10; policy accept;
        tcp dport 443 ct expiration > 100s counter
    }
}"""

until_it_listens()
connections = [connect("10.9.0.2") for _ in range(10)]
run_at_server("nft", "-f", "/run/limits.nft")
run_at_server("nft", PROBE)
for connection in connections:
    connection.sendall(b"bye")
    connection.recv(1)
probe = run_at_server("nft", "list", "table", "inet", "probe")
print("packets of connections that have days left:", probe.split("packets ")[1].split()[0])
