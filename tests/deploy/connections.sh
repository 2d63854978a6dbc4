# Loads the kit's limits of connections, lowered to three and five, in a network of its own, and prints how many of ten
# connections each client may open; how many of 500 a client may open that closes each at once, with a burst of 400 in
# place of 1,000; and how much of two megabytes a client may send, with bursts of 200 KiB, and 400 of a /48, in place
# of 2,000 and 4,000. Run it with: unshare --user --map-root-user --net --mount bash connections.sh FILE
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
mount -t tmpfs tmpfs /run
ip link set lo up
ip netns add clients
ip link add server type veth peer name client netns clients
ip addr add 10.9.0.1/24 dev server
ip addr add fd00:9::1/32 dev server nodad
ip link set server up
ip -n clients link set client up
for address in 10.9.0.2/24 10.9.0.3/24 fd00:9:1:1::2/32 fd00:9:1:2::2/32 fd00:9:2:1::2/32 10.9.0.4/24 fd00:9:3:1::2/32 \
  10.9.0.5/24 fd00:9:4:1::2/32 fd00:9:4:2::2/32 fd00:9:4:3::2/32 fd00:9:5:1::2/32; do
  ip -n clients addr add "$address" dev client $([[ $address != *:* ]] || echo nodad)
done
sed -e 's/over 1000 /over 3 /' -e 's/over 2000 /over 5 /' \
  -e 's#over [12]00/second burst [12]000 #over 1/hour burst 400 #' \
  -e 's#over 200 kbytes/second burst 2000 #over 1 bytes/hour burst 200 #' \
  -e 's#over 400 kbytes/second burst 4000 #over 1 bytes/hour burst 400 #' "$1" >/run/limits.nft
# An update loads it again.
nft -f /run/limits.nft
nft -f /run/limits.nft

python3 - <<'SERVER' &
import socket, threading

def hold(connection):
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    connection.close()

server = socket.create_server(("::", 443), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
while True:
    threading.Thread(target=hold, args=(server.accept()[0],), daemon=True).start()
SERVER
trap 'kill $!' EXIT

ip netns exec clients python3 - <<'CLIENTS'
import fcntl, socket, struct, termios, time

def connect(source, timeout=10):
    server = "fd00:9::1" if ":" in source else "10.9.0.1"
    try:
        return socket.create_connection((server, 443), timeout=timeout, source_address=(source, 0))
    except (ConnectionRefusedError, TimeoutError):
        return None

def open_ten(source):
    connections = [connect(source) for _ in range(10)]
    return [connection for connection in connections if connection]

deadline = time.monotonic() + 30
while not (first := connect("10.9.0.2")):
    assert time.monotonic() < deadline, "the server does not listen"
    time.sleep(0.05)
held = [first] + open_ten("10.9.0.2")
print("10.9.0.2", len(held))
kept = [held]
for source in ["10.9.0.3", "fd00:9:1:1::2", "fd00:9:1:2::2", "fd00:9:2:1::2"]:
    kept.append(open_ten(source))
    print(source, len(kept[-1]))
held.pop().close()
while not (again := connect("10.9.0.2")):
    assert time.monotonic() < deadline, "a closed connection still counts"
    time.sleep(0.05)
print("10.9.0.2", len(held) + 1)

def open_and_close(source):
    for opened in range(500):
        connection = connect(source, timeout=0.9)
        if not connection:
            return opened
        # Closed by a reset, it no longer counts as open as soon as the kernel looks again.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        time.sleep(0.01)

for source in ["10.9.0.4", "fd00:9:3:1::2"]:
    print(source, open_and_close(source), "in turn")

def send_all(source):
    """The KiB that have arrived, when for a second none has."""
    connection = connect(source, timeout=3)
    if not connection:
        return 0
    left, arrived, last = 2_000_000, 0, time.monotonic()
    connection.setblocking(False)
    while time.monotonic() < last + 1:
        try:
            left -= connection.send(bytes(min(left, 1 << 16)))
        except BlockingIOError:
            time.sleep(0.01)
        waiting = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))[0]
        if 2_000_000 - left - waiting > arrived:
            arrived, last = 2_000_000 - left - waiting, time.monotonic()
    return arrived // 1024

for source in ["10.9.0.5", "fd00:9:4:1::2", "fd00:9:4:2::2", "fd00:9:4:3::2", "fd00:9:5:1::2"]:
    arrived = send_all(source)
    print(source, "the burst" if 100 <= arrived <= 200 else "its rest" if arrived < 100 else f"{arrived} KiB")
CLIENTS

# The kernel's table of connections has no room for those on this machine.
python3 - <<'LOOPBACK'
import socket

tracked = lambda: int(open("/proc/sys/net/netfilter/nf_conntrack_count").read())
before = tracked()
connections = [socket.create_connection(("127.0.0.1", 443)) for _ in range(100)]
print("127.0.0.1", "tracked" if tracked() - before >= 50 else "untracked")
LOOPBACK
