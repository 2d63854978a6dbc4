//! Lua functions that scripts of several slices start with.

/// Rate limits: token buckets (B4).
pub const LIMITS: &str = include_str!("../lua/limits.lua");
/// Writing of order records.
pub const ORDER: &str = include_str!("../lua/order.lua");
/// Reading and changing of the line.
pub const LINE: &str = include_str!("../lua/line.lua");
/// Reading of order records.
pub const READ_ORDER: &str = include_str!("../lua/read_order.lua");
/// Stock and its counters.
pub const STOCK: &str = include_str!("../lua/stock.lua");

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn no_script_makes_the_name_of_a_key() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates");
        let mut scripts = 0;
        for folder in fs::read_dir(crates).expect("crates").map(|slice| slice.expect("a crate").path().join("lua")) {
            for script in fs::read_dir(folder).into_iter().flatten() {
                let text = fs::read_to_string(script.expect("a script").path()).expect("a script");
                for call in text.split("call('").skip(1) {
                    let key = call.split(',').nth(1).unwrap_or_default();
                    assert!(
                        !key.contains(".."),
                        "a key that is not in KEYS: call('{}",
                        call.lines().next().unwrap_or_default()
                    );
                }
                scripts += 1;
            }
        }
        assert!(scripts > 30, "{scripts} scripts");
    }
}
