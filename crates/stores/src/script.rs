//! Lua scripts, run with `EVALSHA` and, after `NOSCRIPT`, with `EVAL`.

use std::sync::OnceLock;

use serde::Serialize;
use sha1::{Digest, Sha1};

use crate::{
    ports::{Redis, RedisArg, StoreError},
    reply::Reply,
};

/// Functions that every script starts with.
const COMMON: &str = include_str!("../lua/common.lua");

/// A Lua script.
pub struct Script {
    /// Name of its file, for logs and tests.
    pub name: &'static str,
    parts: &'static [&'static str],
    sha: OnceLock<String>,
}

impl Script {
    /// The script of the file `name`, whose text is `parts` one after the other, after the common functions.
    #[must_use]
    pub const fn new(name: &'static str, parts: &'static [&'static str]) -> Self {
        Self { name, parts, sha: OnceLock::new() }
    }

    /// Whether an `EVALSHA` or `EVAL` with this argument runs the script.
    #[must_use]
    pub fn is_called_by(&self, sha_or_source: &[u8]) -> bool {
        self.sha().as_bytes() == sha_or_source || self.source().as_bytes() == sha_or_source
    }

    fn source(&self) -> String {
        [&[COMMON], self.parts].concat().concat()
    }

    fn sha(&self) -> &str {
        self.sha.get_or_init(|| hex::encode(Sha1::digest(self.source())))
    }

    /// Runs the script with its options as JSON, the only argument.
    pub async fn run_with<R: Redis>(
        &self,
        redis: &R,
        keys: Vec<String>,
        options: &impl Serialize,
    ) -> Result<Reply, StoreError> {
        let json = serde_json::to_vec(options).map_err(|error| StoreError::Malformed(error.to_string()))?;
        self.run(redis, keys, vec![json]).await
    }

    /// Runs the script.
    ///
    /// # Errors
    /// `RedisUnavailable` if the script may or may not have run; `RedisRefused` if Redis answered with an error.
    pub async fn run<R: Redis>(&self, redis: &R, keys: Vec<String>, args: Vec<RedisArg>) -> Result<Reply, StoreError> {
        let mut params: Vec<RedisArg> = Vec::with_capacity(2 + keys.len() + args.len());
        params.push(self.sha().to_owned().into_bytes());
        params.push(keys.len().to_string().into_bytes());
        params.extend(keys.into_iter().map(String::into_bytes));
        params.extend(args);
        let reply = match redis.command("EVALSHA", params.clone()).await {
            Err(StoreError::ScriptNotLoaded) => {
                params[0] = self.source().into_bytes();
                redis.command("EVAL", params).await
            }
            other => other,
        };
        reply.map(Reply::new)
    }
}
