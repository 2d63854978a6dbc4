//! How many files, and so connections, this process and its children may open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// A crowd of a thousand buyers needs more than the 1,024 that many systems start with.
const TARGET: u64 = 16_384;

/// Raises the soft limit of open files as far as wanted and allowed; children inherit it.
pub fn raise_open_file_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < TARGET
    {
        // A system that refuses keeps its limit: a small load works all the same.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, TARGET.min(hard), hard);
    }
}
