//! Serves the pages and their assets: what `scripts/assets` built, mounted at `/`.

mod answer;
mod encoding;
mod media;
mod security;
mod shelf;

use std::cell::RefCell;

use platform::http;
use spin_sdk::{
    http::{IntoResponse, Request},
    http_service,
};

use crate::shelf::Shelf;

thread_local! {
    // Not request state: the mounted files change only with a deployment, and that brings new instances. The shelf
    // bounds what it keeps.
    static SHELF: RefCell<Shelf> = RefCell::new(Shelf::new("/"));
}

#[http_service]
async fn serve(request: Request) -> impl IntoResponse {
    http::serve(request, async |call| SHELF.with_borrow_mut(|shelf| answer::answer(shelf, call))).await
}
