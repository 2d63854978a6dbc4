//! The origins of the variable `cors_origins`, parsed once per instance.

use std::{cell::RefCell, rc::Rc};

use domain::http::{cors::AllowedOrigins, problem::Problem};

use crate::{
    async_once::{self, AsyncOnce},
    config,
};

thread_local! {
    static ORIGINS: RefCell<AsyncOnce<AllowedOrigins>> = const { RefCell::new(AsyncOnce::Empty) };
}

/// Returns the origins whose pages may call; `None` if there are none.
///
/// # Errors
/// `not_ready` if the variable has what is no origin; the fault is logged.
pub async fn allowed_origins() -> Result<Option<Rc<AllowedOrigins>>, Problem> {
    let origins = async_once::get_or_init(&ORIGINS, async || {
        AllowedOrigins::parse(&config::get("cors_origins").await)
            .map_err(|fault| config::misconfigured("cors_origins", &fault))
    })
    .await?;
    Ok((!origins.is_empty()).then_some(origins))
}
