//! Finds unused TCP ports and checks whether ports are in use.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket},
    sync::Mutex,
    time::Duration,
};

use anyhow::{Context, Result};

/// First port to hand out, and number of ports. The range is below the ephemeral ports of Linux and macOS, so a
/// restarted server finds its port free.
const FIRST_PORT: u16 = 20_000;
const PORT_COUNT: u16 = 12_000;

/// A bound UDP socket for each port handed out, until this process ends. It marks the port as taken for this process
/// and for concurrent processes that use this module.
static CLAIMED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// Returns a TCP port without a listener and claims it until this process ends.
pub fn pick_unused() -> Result<u16> {
    let start = RandomState::new().build_hasher().finish() % u64::from(PORT_COUNT);
    let ports =
        (FIRST_PORT..FIRST_PORT + PORT_COUNT).cycle().skip(usize::try_from(start)?).take(usize::from(PORT_COUNT));
    ports.into_iter().find(|port| claim(*port)).context("no free port on 127.0.0.1 from 20000 to 31999")
}

fn claim(port: u16) -> bool {
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) else { return false };
    let is_unused = is_free((Ipv4Addr::LOCALHOST, port).into());
    if is_unused && let Ok(mut claimed) = CLAIMED.lock() {
        claimed.push(socket);
    }
    is_unused
}

/// Whether this process can listen on `address` now.
pub fn is_free(address: SocketAddr) -> bool {
    try_bind(address).is_ok()
}

/// Binds `address` and closes the socket again.
pub fn try_bind(address: SocketAddr) -> io::Result<()> {
    TcpListener::bind(address).map(drop)
}

/// Whether a server on this machine accepts connections on `port`.
pub fn accepts_connections(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok()
}

/// Connects to `host:port` and closes the connection.
pub fn try_connect(host: &str) -> io::Result<()> {
    let mut last_error = io::Error::other("the name has no address");
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(3)) {
            Ok(_) => return Ok(()),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{self, Probe};

    #[test]
    fn a_port_is_claimed_once_and_can_be_bound_again() {
        let (one, other) = (pick_unused().unwrap(), pick_unused().unwrap());
        assert_ne!(one, other);
        assert!(!claim(one), "given away again");
        let address = (Ipv4Addr::LOCALHOST, one);
        drop(TcpListener::bind(address).unwrap());
        // A child process that another thread is starting holds a copy of every open socket until it executes its
        // program.
        let again = poll::until("the port", Duration::from_secs(10), || {
            Ok(TcpListener::bind(address).map_or_else(Probe::Pending, Probe::Ready))
        });
        again.unwrap();
    }
}
