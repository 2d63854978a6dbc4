//! A TCP proxy that simulates network faults: delay, disconnection, another target.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

/// A proxy on a free port of this machine.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    ended: AtomicBool,
    state: Mutex<State>,
}

struct State {
    target: u16,
    enabled: bool,
    delay: Duration,
    streams: Vec<TcpStream>,
}

impl Proxy {
    /// Starts a proxy in front of a port of this machine.
    pub fn start(target: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on 127.0.0.1")?;
        let address = listener.local_addr()?;
        let state = State { target, enabled: true, delay: Duration::ZERO, streams: vec![] };
        let shared = Arc::new(Shared { ended: AtomicBool::new(false), state: Mutex::new(state) });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if accepting.ended.load(Ordering::SeqCst) {
                    break;
                }
                // If the proxy is disabled or the target refuses, `connect` drops the stream, which closes it.
                let _ = connect(&accepting, stream);
            }
        });
        Ok(Self { address, shared })
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Closes every connection, and closes new ones at once.
    pub fn disable(&self) {
        let mut state = lock(&self.shared);
        state.enabled = false;
        close_all(&mut state);
    }

    /// Forwards new connections again.
    pub fn enable(&self) {
        lock(&self.shared).enabled = true;
    }

    /// Delays everything that the target sends, by `delay` for each chunk.
    pub fn set_delay(&self, delay: Duration) {
        lock(&self.shared).delay = delay;
    }

    /// Closes every connection; new ones go to the port `target`.
    pub fn retarget(&self, target: u16) {
        let mut state = lock(&self.shared);
        state.target = target;
        close_all(&mut state);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        close_all(&mut lock(&self.shared));
        // Wakes the listener's thread, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

fn connect(shared: &Arc<Shared>, client: TcpStream) -> Result<()> {
    let mut state = lock(shared);
    if !state.enabled {
        return Ok(());
    }
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, state.target))?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        state.streams.push(stream.try_clone()?);
    }
    let (to_server, to_client) = (server.try_clone()?, client.try_clone()?);
    let shared = Arc::clone(shared);
    thread::spawn(move || forward(client, to_server, || Duration::ZERO));
    thread::spawn(move || forward(server, to_client, || lock(&shared).delay));
    Ok(())
}

fn forward(mut from: TcpStream, mut to: TcpStream, delay: impl Fn() -> Duration) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        thread::sleep(delay());
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn close_all(state: &mut State) {
    for stream in state.streams.drain(..) {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// A server that echoes every byte, in upper case if `uppercase`.
    fn echo(uppercase: bool) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut byte = [0];
                while let Ok(1) = stream.read(&mut byte) {
                    let _ = stream.write_all(&[if uppercase { byte[0].to_ascii_uppercase() } else { byte[0] }]);
                }
            }
        });
        port
    }

    fn round_trip(stream: &mut TcpStream) -> std::io::Result<u8> {
        let mut byte = [0];
        stream.write_all(b"a").and_then(|()| stream.read_exact(&mut byte)).map(|()| byte[0])
    }

    #[test]
    fn it_can_be_delayed_disabled_enabled_and_retargeted() {
        let proxy = Proxy::start(echo(false)).expect("a proxy");
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).expect("a connection");
        let mut stream = connect();
        assert_eq!(round_trip(&mut stream).ok(), Some(b'a'));
        proxy.set_delay(Duration::from_millis(300));
        let start = Instant::now();
        assert_eq!(round_trip(&mut stream).ok(), Some(b'a'));
        assert!(start.elapsed() >= Duration::from_millis(300));
        proxy.set_delay(Duration::ZERO);
        proxy.disable();
        assert!(round_trip(&mut stream).is_err());
        assert!(round_trip(&mut connect()).is_err());
        proxy.enable();
        assert_eq!(round_trip(&mut connect()).ok(), Some(b'a'));
        proxy.retarget(echo(true));
        assert_eq!(round_trip(&mut connect()).ok(), Some(b'A'));
    }
}
