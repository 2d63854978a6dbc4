//! Clients that hold connections or fill them: headers and bodies that never end, slowly or at full speed (B9).

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::sleep,
};

use super::{TestActivity, TestApp};

/// How often each client sends a few bytes more.
const PAUSE: Duration = Duration::from_secs(2);

/// How each client begins; the text that it repeats follows.
const KINDS: [(&str, &str); 3] = [
    ("GET /api/activities HTTP/1.1\r\nhost: sale.example\r\n", "x-more: 1\r\n"),
    (
        "POST /api/activities/demo/orders HTTP/1.1\r\nhost: sale.example\r\ncontent-type: application/json\r\n\
         content-length: 16000\r\n\r\n{",
        " ",
    ),
    (
        "POST /api/activities/demo/ticket HTTP/1.1\r\nhost: sale.example\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n1\r\n{\r\n",
        "1\r\n \r\n",
    ),
];

/// Slow clients, until it is dropped.
pub struct SlowSenders {
    _clients: JoinSet<()>,
    open: Arc<AtomicUsize>,
}

impl SlowSenders {
    /// Starts so many clients of the server at a port of this machine, and returns when all of them are connected. A client
    /// whose connection the server closes opens another one.
    pub async fn start(port: u16, number: usize) -> Self {
        let open = Arc::new(AtomicUsize::new(0));
        let mut clients = JoinSet::new();
        for index in 0..number {
            let (open, (head, more)) = (Arc::clone(&open), KINDS[index % KINDS.len()]);
            clients.spawn(async move {
                loop {
                    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else {
                        sleep(PAUSE).await;
                        continue;
                    };
                    let started = Instant::now();
                    open.fetch_add(1, Ordering::Relaxed);
                    let (mut reader, mut writer) = stream.split();
                    let send = async {
                        writer.write_all(head.as_bytes()).await?;
                        loop {
                            sleep(PAUSE).await;
                            writer.write_all(more.as_bytes()).await?;
                        }
                    };
                    // An answer ends the connection as well as its end does.
                    let mut answer = [0];
                    let _: std::io::Result<()> = tokio::select! {
                        read = reader.read(&mut answer) => read.map(drop),
                        sent = send => sent,
                    };
                    open.fetch_sub(1, Ordering::Relaxed);
                    sleep(PAUSE.saturating_sub(started.elapsed())).await;
                }
            });
        }
        let senders = Self { _clients: clients, open };
        super::eventually("the slow clients", async || match senders.open() {
            open if open * 10 >= number * 9 => Ok(()),
            open => Err(open),
        })
        .await;
        senders
    }

    /// Number of connections that are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// Clients that send header lines at full speed, until it is dropped.
pub struct HeaderFlood {
    _clients: JoinSet<()>,
    refused: Arc<AtomicUsize>,
    answered: Arc<AtomicUsize>,
}

impl HeaderFlood {
    /// Starts so many clients of the server at a port of this machine. Each sends one request after the other, each with
    /// more header lines than any server takes.
    pub fn start(port: u16, number: usize) -> Self {
        let (refused, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let request: Arc<str> =
            format!("GET /api/activities HTTP/1.1\r\n{}", "x-more: 0123456789\r\n".repeat(50_000)).into();
        let mut clients = JoinSet::new();
        for _ in 0..number {
            let (refused, answered) = (Arc::clone(&refused), Arc::clone(&answered));
            let request = Arc::clone(&request);
            clients.spawn(async move {
                loop {
                    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else {
                        sleep(PAUSE).await;
                        continue;
                    };
                    // The server answers and closes the connection before it has read everything.
                    let _ = stream.write_all(request.as_bytes()).await;
                    let mut answer = [0; 12];
                    let is_read = stream.read_exact(&mut answer).await.is_ok();
                    // An answer is lost if more of the request was on its way.
                    let is_refusal = !is_read || [*b"HTTP/1.1 400", *b"HTTP/1.1 431"].contains(&answer);
                    if is_refusal { &refused } else { &answered }.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self { _clients: clients, refused, answered }
    }

    /// Waits until the server has refused a hundred requests, and returns the number. Panics if it served one.
    pub async fn wait_for_refusals(&self) -> usize {
        let refused = super::eventually("refusals", async || match self.refused.load(Ordering::Relaxed) {
            refused if refused >= 100 => Ok(refused),
            refused => Err(refused),
        })
        .await;
        assert_eq!(self.answered.load(Ordering::Relaxed), 0, "served in place of refused");
        refused
    }
}

/// Durations of requests, sorted.
#[derive(Default)]
pub struct Durations(Vec<Duration>);

impl Durations {
    /// Waits for the output of `future` and records how long it took.
    pub async fn measure<T>(&mut self, future: impl Future<Output = T>) -> T {
        let started = Instant::now();
        let output = future.await;
        self.0.push(started.elapsed());
        output
    }

    /// Buys as an honest buyer does, and records each step: a ticket, a reservation, and polling until the order can be
    /// paid.
    pub async fn buy(&mut self, app: &TestApp, activity: &TestActivity, user: &str) {
        let buyer = self.measure(app.create_buyer(activity, user)).await;
        let order = self.measure(app.reserve(activity, &buyer, "a", 1)).await.is(202);
        self.measure(app.wait_for_status(&order.text("order_no"), &buyer.ticket, "pending_payment")).await;
    }

    /// The median and the 99th percentile.
    pub fn summary(&mut self) -> String {
        self.0.sort_unstable();
        let at = |percent: usize| self.0.get((self.0.len() * percent / 100).min(self.0.len() - 1));
        format!("{} requests, median {:?}, p99 {:?}", self.0.len(), at(50).unwrap(), at(99).unwrap())
    }
}
