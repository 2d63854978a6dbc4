//! TCP ports: who listens, and where nobody does.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    time::Duration,
};

use anyhow::{Context, Result};

/// A port that was free a moment ago.
///
/// # Errors
/// When the machine has none left.
pub fn free() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}

/// Whether this process could listen on an address now.
#[must_use]
pub fn is_free(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_ok()
}

/// Whether somebody accepts connections on a port of this machine.
#[must_use]
pub fn answers(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok()
}

/// Connects to `host:port`, and hangs up.
///
/// # Errors
/// The host is unknown, or none of its addresses takes a connection.
pub fn reach(host: &str) -> io::Result<()> {
    let mut refused = io::Error::other("the name has no address");
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(3)) {
            Ok(_) => return Ok(()),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}
