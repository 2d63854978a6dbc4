//! Serves the pages and assets that `scripts/assets` built, mounted at `/`.

mod encoding;
mod file_cache;
mod media;
mod respond;
mod security;

use std::cell::RefCell;

use platform::{
    async_once::{self, AsyncOnce},
    http::{ApiError, Request, Response},
};

use crate::{file_cache::FileCache, security::Policies};

platform::http_service!(serve);

thread_local! {
    // This is not request state: mounted files change only with a deployment, which starts new instances. The cache is
    // bounded.
    static FILE_CACHE: RefCell<FileCache> = RefCell::new(FileCache::new("/"));
    static POLICIES: RefCell<AsyncOnce<Policies>> = const { RefCell::new(AsyncOnce::Empty) };
}

async fn serve(request: &Request) -> Result<Response, ApiError> {
    let policies =
        async_once::get_or_init(&POLICIES, async || Ok::<_, ApiError>(Policies::from_config().await)).await?;
    FILE_CACHE.with_borrow_mut(|cache| respond::respond(cache, &policies, request))
}
