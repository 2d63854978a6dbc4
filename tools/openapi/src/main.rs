//! Writes the OpenAPI document (G11).
//!
//! Schemas come from the types that the functions read and send, paths and methods from the route tables, statuses from
//! the error codes. `operations` adds what no type says: summaries, parameters, and the codes of each operation.

mod components;
mod document;
mod foreign;
mod operation;
mod operations;
mod schemas;

use anyhow::{Context, Result};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../static/openapi.json");

fn main() -> Result<()> {
    std::fs::write(PATH, document::text()).with_context(|| format!("cannot write {PATH}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_in_static_is_the_generated_one() {
        let committed = std::fs::read_to_string(super::PATH).expect("static/openapi.json");
        let generated = super::document::text();
        assert!(committed == generated, "run `cargo run -p openapi` and read the difference");
    }
}
