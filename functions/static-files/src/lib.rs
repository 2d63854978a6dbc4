//! Serves the pages and assets that `scripts/assets` built, mounted at `/`.

mod encoding;
mod file_cache;
mod media;
mod respond;
mod security;

use std::cell::RefCell;

use platform::http;
use spin_sdk::{
    http::{IntoResponse, Request},
    http_service,
};

use crate::file_cache::FileCache;

thread_local! {
    // This is not request state: mounted files change only with a deployment, which starts new instances. The cache is
    // bounded.
    static FILE_CACHE: RefCell<FileCache> = RefCell::new(FileCache::new("/"));
}

#[http_service]
async fn serve(request: Request) -> impl IntoResponse {
    http::serve(request, async |request| FILE_CACHE.with_borrow_mut(|cache| respond::respond(cache, request))).await
}
