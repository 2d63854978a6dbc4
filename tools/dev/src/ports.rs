//! TCP ports: who listens, and where nobody does.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket},
    sync::Mutex,
    time::Duration,
};

use anyhow::{Context, Result};

/// The first port that is given away, and how many there are: below those that Linux and macOS take for outgoing
/// connections, so a server that is started again finds its port free.
const FIRST_PORT: u16 = 20_000;
const PORT_COUNT: u16 = 12_000;

/// A datagram socket for each port that was given away, until this process ends: no other of our processes, nor this
/// one, gives it away again.
static CLAIMED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// A port where nobody listens, and that stays free for whoever this process starts.
///
/// # Errors
/// When there is none left.
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

/// Whether this process could listen on an address now.
#[must_use]
pub fn is_free(address: SocketAddr) -> bool {
    try_bind(address).is_ok()
}

/// Listens on an address for a moment.
///
/// # Errors
/// Why this process cannot: somebody else does, the address is another machine's, or it is not allowed to.
pub fn try_bind(address: SocketAddr) -> io::Result<()> {
    TcpListener::bind(address).map(drop)
}

/// Whether somebody accepts connections on a port of this machine.
#[must_use]
pub fn accepts_connections(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok()
}

/// Connects to `host:port`, and hangs up.
///
/// # Errors
/// The host is unknown, or none of its addresses takes a connection.
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
        // What another thread starts has all our sockets for a moment.
        let again = poll::until("the port", Duration::from_secs(10), || {
            Ok(TcpListener::bind(address).map_or_else(Probe::Pending, Probe::Ready))
        });
        again.unwrap();
    }
}
