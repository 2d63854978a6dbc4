//! The kit's limits of connections in the kernel's packet filter (B9, G9).

use std::process::Command;

use dev::root;

/// Seconds after which conntrack forgets an open connection, as the kit has it.
const SILENT: &str = "65";

/// Runs a program of clients in a network of its own with the kit's limits, lowered. Returns what it prints.
fn print_of(clients: &str, at_once: &str, syn_cookies: &str) -> String {
    print_with_silence_of(SILENT, clients, at_once, syn_cookies)
}

/// Like [`print_of`]; conntrack forgets an open connection after `silent` seconds.
fn print_with_silence_of(silent: &str, clients: &str, at_once: &str, syn_cookies: &str) -> String {
    let project = root::find().expect("the project");
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--net", "--mount", "bash"]);
    unshare.arg(project.join("tests/deploy/connections/network.sh"));
    unshare.arg(project.join("deploy/self-hosted/nftables/stampede.nft")).args([clients, at_once, syn_cookies, silent]);
    let output = unshare.output().expect("unshare");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Two IPv4 addresses, two /64s of one /48, and a /64 of another one; the first once more, after one connection was closed;
/// five that send without end, three of them from one /48; and one that sends as much to another service, which has no
/// limit. Before them, ten connections that are older than the rules.
#[test]
fn a_client_opens_so_many_connections_and_sends_so_much_and_others_are_not_refused() {
    let expected = "from before the rules 0\n10.9.0.2 3\n10.9.0.3 3\nfd00:9:1:1::2 3\nfd00:9:1:2::2 2\nfd00:9:2:1::2 3\n10.9.0.2 3\n\
        10.9.0.5 the burst\nfd00:9:4:1::2 the burst\nfd00:9:4:2::2 the burst\nfd00:9:4:3::2 less than the burst\nfd00:9:5:1::2 the burst\n\
        10.9.0.6 1953 KiB to another service\n127.0.0.1 untracked\n";
    assert_eq!(print_of("clients.py", "3", "1"), expected);
}

#[test]
fn a_client_that_closes_each_connection_opens_as_many_as_one_that_does_not() {
    let expected = "from before the rules 0\n10.9.0.4 100 in turn\nfd00:9:3:1::2 100 in turn\n\
        waiting for their last packet: 0\n127.0.0.1 untracked\n";
    assert_eq!(print_of("clients_in_turn.py", "1000", "1"), expected);
}

#[test]
fn a_client_that_closes_late_opens_the_next_connection_from_the_same_port() {
    let expected = "from before the rules 0\nopened again: 5\n127.0.0.1 untracked\n";
    assert_eq!(print_of("late_clients.py", "100", "1"), expected);
}

#[test]
fn packets_that_conntrack_misunderstands_pass_no_limit() {
    let expected = "from before the rules 0\nsent in packets that may be invalid: less than the burst\nconnections in turn from used ports: 100\n\
        connections at once that seem ended: 3\nconnections at once that the server reset while they opened: 3\n\
        connections at once that were reset behind a header: 3\n\
        sent in final ACKs: the burst\nsent in FINs in their place: less than the burst\n\
        connections of a client beside forged handshakes: 3\nKiB of a client whose address is forged: 97\n\
        127.0.0.1 untracked\n";
    assert_eq!(print_of("raw_clients.py", "3", "1"), expected);
}

#[test]
fn the_final_ack_of_a_handshake_passes_no_limit_with_syn_cookies() {
    let expected = "from before the rules 0\nconnections in turn by a final ACK: 99\n\
        connections at once that the server had closed: 0\nconnections in turn by a FIN in its place: 0\n\
        sent in final ACKs: the burst\nconnections of a client beside forged handshakes: 3\n\
        127.0.0.1 untracked\n";
    assert_eq!(print_of("cookie_clients.py", "3", "2"), expected);
}

#[test]
fn an_open_connection_leaves_conntrack_as_soon_after_a_reload_as_before() {
    let expected = "from before the rules 0\npackets of connections that have days left: 0\n127.0.0.1 untracked\n";
    assert_eq!(print_of("reload.py", "100", "1"), expected);
}

#[test]
fn a_connection_that_conntrack_has_forgotten_is_reset_when_the_server_sends_in_it() {
    let expected = "from before the rules 0\nconnections that only FINs acknowledge: 0 and 0\n127.0.0.1 untracked\n";
    assert_eq!(print_with_silence_of("3", "fin_acks.py", "3", "1"), expected);
}
