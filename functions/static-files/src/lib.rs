//! Serves the pages and their assets: what `scripts/assets` built, mounted at `/`.

mod answer;
mod encoding;
mod media;
mod security;
mod shelf;

use std::cell::RefCell;

use spin_sdk::http::{FullBody, IntoResponse, Request};
use spin_sdk::{http_service, wit_bindgen};

use crate::shelf::Shelf;

thread_local! {
    // Not request state: the mounted files change only with a deployment, and
    // that brings new instances. The shelf bounds what it keeps.
    static SHELF: RefCell<Shelf> = RefCell::new(Shelf::new("/"));
}

#[http_service]
async fn serve(request: Request) -> impl IntoResponse {
    let (request, _) = request.into_parts();
    let answer = SHELF.with_borrow_mut(|shelf| answer::answer(shelf, &request));
    let response = answer.map(FullBody::new).into_response();
    wit_bindgen::yield_async().await;
    response
}
