# Loads the kit's limits of connections in a network of its own, while ten are open, lowered to bursts of 100 new
# ones, and bursts of 200 KiB (400 of a /48), and runs a program of clients there. Run it with:
# unshare --user --map-root-user --net --mount bash network.sh FILE CLIENTS AT-ONCE SYN-COOKIES SILENT
# AT-ONCE: how many connections of a client; a /48 has two more. SYN-COOKIES: 1, the default of kernels, if too many
# connections are half-open; 2 always. SILENT: seconds after which conntrack forgets an open connection.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
here=$(dirname "$0")
rules=$1 clients=$2 at_once=$3 syn_cookies=$4 silent=$5
mount -t tmpfs tmpfs /run
unit=$(dirname "$rules")/../systemd/stampede-connections.service
set_by_unit() { # set_by_unit NAME OTHERWISE
  value=$(sed -n "s/^ExecStart=.*$1=\([01]\).*/\1/p" "$unit")
  echo "${value:-$2}" >"/proc/sys/net/netfilter/$1"
}
set_by_unit nf_conntrack_tcp_be_liberal 1
set_by_unit nf_conntrack_tcp_loose 0
echo "$syn_cookies" >/proc/sys/net/ipv4/tcp_syncookies
ip link set lo up
ip netns add clients
ip link add server type veth peer name client netns clients
ip addr add 10.9.0.1/24 dev server
ip addr add fd00:9::1/32 dev server nodad
ip link set server up
ip -n clients link set client up
for address in 10.9.0.{2..9}/24 fd00:9:{1:1,1:2,2:1,3:1,4:1,4:2,4:3,5:1}::2/32; do
  ip -n clients addr add "$address" dev client $([[ $address != *:* ]] || echo nodad)
done
sed -e "s/over 1000 /over $at_once /; s/over 2000 /over $((at_once + 2)) /" \
  -e "s/established : 65/established : $silent/" \
  -e 's#over [12]00/second burst [12]000 #over 1/hour burst 100 #' \
  -e 's#over 200 kbytes/second burst 2000 #over 1 bytes/hour burst 200 #' \
  -e 's#over 400 kbytes/second burst 4000 #over 1 bytes/hour burst 400 #' "$rules" >/run/limits.nft
/usr/bin/python3 "$here/server.py" &
server=$!
trap 'kill $server' EXIT
ip netns exec clients /usr/bin/python3 "$here/early.py" /run/opened /run/loaded &
early=$!
trap 'kill $server $early 2>/dev/null' EXIT
until [[ -e /run/opened ]] || ! kill -0 "$early"; do sleep 0.05; done
# An update loads it again.
nft -f /run/limits.nft
nft -f /run/limits.nft
touch /run/loaded
wait "$early"
NETWORK=/proc/$$/ns/net ip netns exec clients /usr/bin/python3 "$here/$clients"

# conntrack has no room for those on this machine.
/usr/bin/python3 - <<'LOOPBACK'
import socket

tracked = lambda: int(open("/proc/sys/net/netfilter/nf_conntrack_count").read())
before = tracked()
connections = [socket.create_connection(("127.0.0.1", 443)) for _ in range(100)]
print("127.0.0.1", "tracked" if tracked() - before >= 50 else "untracked")
LOOPBACK
