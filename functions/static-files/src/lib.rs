//! Serves the pages and assets that `scripts/assets` built, mounted at `/`.

mod branded_page;
mod encoding;
mod file_cache;
mod list_page;
mod media;
mod page_data;
mod respond;
mod sale_page;
mod security;
mod settings;

use std::cell::RefCell;

use platform::http::{ApiError, Request, Response};

use crate::{file_cache::FileCache, settings::Settings};

platform::http_service!(serve, cors_below = Some("/client/"), counts = false);

thread_local! {
    // This is not request state: mounted files change only with a deployment, which starts new instances. The cache is
    // bounded.
    static FILE_CACHE: RefCell<FileCache> = RefCell::new(FileCache::new("/"));
}

async fn serve(request: &Request) -> Result<Response, ApiError> {
    let settings = platform::settings::load(Settings::parse).await?;
    let data = page_data::load(request, &settings.shop_url).await;
    FILE_CACHE.with_borrow_mut(|cache| respond::respond(cache, &settings, data.as_deref(), request))
}
