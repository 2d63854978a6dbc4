//! Writes the OpenAPI documents (G11), of the whole API and of the protocol of payment services, and the tables of
//! variables and error codes.
//!
//! Schemas come from the types that the functions read and send, paths and methods from the route tables, statuses from
//! the error codes. `operations` adds what no type says: summaries, parameters, and the codes of each operation.

mod components;
mod configuration;
mod document;
mod errors;
mod examples;
mod foreign;
mod operation;
mod operations;
mod payments;
mod schemas;

use anyhow::{Context, Result};

const PATHS: [&str; 4] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../static/openapi.json"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/payments.openapi.json"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md"),
];

/// The documents as text.
fn texts() -> Result<[String; 4]> {
    let [api, payments] = document::texts();
    Ok([api, payments, configuration::text()?, errors::text()])
}

fn main() -> Result<()> {
    for (path, text) in PATHS.iter().zip(texts()?) {
        std::fs::write(path, text).with_context(|| format!("cannot write {path}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_documents_are_the_generated_ones() {
        for (path, generated) in super::PATHS.iter().zip(super::texts().expect("documents")) {
            let committed = std::fs::read_to_string(path).expect(path);
            assert!(committed == generated, "{path}: run `cargo run -p openapi` and read the difference");
        }
    }
}
