//! Which server of a Redis Cluster has a key: slots, redirections and addresses.
//!
//! Source: the Redis Cluster specification, <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>.

use std::ops::RangeInclusive;

use crc::{CRC_16_XMODEM, Crc};
use stores::ports::RedisArg;

const SLOTS: u16 = 16_384;

/// Commands of this app that have no key: any server answers.
const WITHOUT_KEY: [&str; 4] = ["CLUSTER", "INFO", "PUBLISH", "TIME"];

/// Returns the key by which a command finds its server; the others have the same hash tag.
pub fn key_of<'a>(command: &str, args: &'a [RedisArg]) -> Option<&'a [u8]> {
    let position = match command {
        "EVAL" | "EVALSHA" => 2,
        command if WITHOUT_KEY.contains(&command) => return None,
        _ => 0,
    };
    args.get(position).map(Vec::as_slice)
}

/// Returns the slot of a key: that of its hash tag, if it has one.
pub fn slot_of(key: &[u8]) -> u16 {
    const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|start| {
        let rest = &key[start + 1..];
        let end = rest.iter().position(|byte| *byte == b'}')?;
        (end > 0).then(|| &rest[..end])
    });
    CRC.checksum(tag.unwrap_or(key)) % SLOTS
}

/// The address of each range of slots.
pub type SlotRanges = Vec<(RangeInclusive<u16>, String)>;

/// Parses the reply to `CLUSTER NODES`, sent to `host`: one line for each server, which has its slots from the ninth field
/// on. Slots that are being moved stay with their server. What cannot be read is left out.
pub fn parse_nodes(text: &str, host: &str) -> SlotRanges {
    let parse_line = |line: &str| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let (address, hostname) = fields.get(1)?.split_once(',').unwrap_or((fields.get(1)?, ""));
        let address = address.split_once('@').map_or(address, |(address, _)| address);
        let port = address.rsplit_once(':')?.1;
        // A server with a name is called by it: its certificate has that name. Metadata may follow it.
        let name = hostname.split(',').next().filter(|name| !name.is_empty() && !name.contains('='));
        let address = name.map_or_else(|| address.to_owned(), |name| format!("{name}:{port}"));
        let ranges = fields.get(8..)?.iter().filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?..=last.parse().ok()?, full_address(&address, host)))
        });
        Some(ranges.collect::<Vec<_>>())
    };
    text.lines().filter_map(parse_line).flatten().collect()
}

/// Returns an address as a URL has it: without a host it is another port of `host`, and an IPv6 address is in brackets.
pub fn full_address(address: &str, host: &str) -> String {
    match address.rsplit_once(':') {
        Some(("", port)) => format!("{host}:{port}"),
        Some((ip, port)) if ip.contains(':') && !ip.starts_with('[') => format!("[{ip}]:{port}"),
        _ => address.to_owned(),
    }
}

/// Splits a URL into what is before its address, the address, and what follows.
fn split_url(url: &str) -> (&str, &str, &str) {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    let start = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    (&url[..start], &url[start..end], &url[end..])
}

/// Returns the host of a URL.
pub fn host_of(url: &str) -> &str {
    let address = split_url(url).1;
    address.rsplit_once(':').map_or(address, |(host, port)| if port.contains(']') { address } else { host })
}

/// Returns the URL of another server, with the scheme, user and password of `url`.
pub fn with_address(url: &str, address: &str) -> String {
    let (start, _, end) = split_url(url);
    format!("{start}{address}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_activity_have_the_slot_that_redis_computes() {
        // As CLUSTER KEYSLOT answers.
        for (key, slot) in [("foo", 12_182), ("{user1000}.following", 3_443), ("{user1000}.followers", 3_443)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_ne!(slot_of(b"{}a"), slot_of(b"{}b"), "an empty tag is none");
        let args = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(key_of("EVALSHA", &args(&["sha", "1", "{demo}:gate", "x"])), Some(&b"{demo}:gate"[..]));
        assert_eq!(key_of("HMGET", &args(&["{demo}:gate", "x"])), Some(&b"{demo}:gate"[..]));
        assert_eq!(key_of("PUBLISH", &args(&["stampede:doorbell", "demo"])), None);
    }

    #[test]
    fn the_reply_of_cluster_nodes_is_read_tolerantly() {
        let text = "07c3 127.0.0.1:30004@31004 slave e7d1 0 1426238317239 4 connected\n\
            67ed 127.0.0.1:30002@31002,redis-2.example master - 0 1426238316232 2 connected 5461-10922\n\
            292f ::1:30003@31003,,shard-id=69bc master - 0 1426238318243 3 connected 10923-16383 [77->-e7d1]\n\
            nothing to read\n\
            e7d1 :30001@31001 myself,master - 0 0 1 connected 0-76 78 80-5460\n";
        let found = parse_nodes(text, "10.0.0.7");
        let expected = [
            (5_461..=10_922, "redis-2.example:30002"),
            (10_923..=16_383, "[::1]:30003"),
            (0..=76, "10.0.0.7:30001"),
            (78..=78, "10.0.0.7:30001"),
            (80..=5_460, "10.0.0.7:30001"),
        ];
        assert_eq!(found, expected.map(|(range, address)| (range, address.to_owned())));
    }

    #[test]
    fn the_other_servers_are_called_like_the_first_one() {
        let url = "rediss://app:p%40ss@redis.example:6380/0?a=b#insecure";
        assert_eq!(host_of(url), "redis.example");
        assert_eq!(with_address(url, "10.0.0.8:6381"), "rediss://app:p%40ss@10.0.0.8:6381/0?a=b#insecure");
        assert_eq!(host_of("redis://[::1]:7000"), "[::1]");
        assert_eq!(with_address("redis://127.0.0.1", "127.0.0.1:7001"), "redis://127.0.0.1:7001");
    }
}
