//! Sets up the host's own log on stderr. `RUST_LOG` filters it; the default is errors only.

use std::io::IsTerminal as _;

use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

/// Installs the log subscriber.
pub fn init() {
    let rust_log = std::env::var("RUST_LOG").unwrap_or_default();
    let filter = match rust_log.parse::<Targets>() {
        Ok(targets) if !rust_log.is_empty() => targets,
        _ => Targets::new().with_default(LevelFilter::ERROR),
    };
    let layer =
        fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal()).with_filter(filter);
    tracing_subscriber::registry().with(layer).init();
}
