//! The kit's limits of connections in the kernel's packet filter (B9, G9).

use std::process::Command;

use dev::root;

/// Two IPv4 addresses, two /64s of one /48, and a /64 of another one; the first once more, after one connection was closed;
/// two clients that close each connection at once; and five that send without end, three of them from one /48.
#[test]
fn a_client_opens_so_many_connections_and_sends_so_much_and_others_are_not_refused() {
    let project = root::find().expect("the project");
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--net", "--mount", "bash"]);
    unshare.arg(project.join("tests/deploy/connections.sh"));
    let output = unshare.arg(project.join("deploy/self-hosted/nftables/stampede.nft")).output().expect("unshare");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = "10.9.0.2 3\n10.9.0.3 3\nfd00:9:1:1::2 3\nfd00:9:1:2::2 2\nfd00:9:2:1::2 3\n10.9.0.2 3\n\
        10.9.0.4 400 in turn\nfd00:9:3:1::2 400 in turn\n\
        10.9.0.5 the burst\nfd00:9:4:1::2 the burst\nfd00:9:4:2::2 the burst\nfd00:9:4:3::2 its rest\nfd00:9:5:1::2 the burst\n127.0.0.1 untracked\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
