//! The host's own log lines, on stderr. `RUST_LOG` chooses them, errors are the default.

use std::io::IsTerminal as _;

use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

/// Starts logging.
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
