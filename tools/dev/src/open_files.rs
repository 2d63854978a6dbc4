//! Raises the limit of open files, and so of connections, of this process and its children.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Enough for a thousand concurrent buyers; the default of many systems is 1,024.
const TARGET: u64 = 16_384;

/// Raises the soft limit to 16,384, or to the hard limit if that is lower. Children inherit it.
pub fn raise_open_file_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < TARGET
    {
        // If the system refuses, the old limit is kept; it is enough for small loads.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, TARGET.min(hard), hard);
    }
}
