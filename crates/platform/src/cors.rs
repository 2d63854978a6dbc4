//! The origins of the variable `cors_origins`, parsed once per instance.

use std::rc::Rc;

use domain::http::{cors::AllowedOrigins, problem::Problem};

use crate::{config, single_flight::Once};

thread_local! {
    static ORIGINS: Rc<Once<AllowedOrigins>> = Rc::default();
}

/// Returns the origins whose pages may call; `None` if there are none.
///
/// # Errors
/// `not_ready` if the variable has what is no origin; the fault is logged.
pub async fn allowed_origins() -> Result<Option<Rc<AllowedOrigins>>, Problem> {
    let origins = ORIGINS
        .with(Rc::clone)
        .get_or_init(async || {
            AllowedOrigins::parse(&config::get("cors_origins").await)
                .map_err(|fault| config::misconfigured("cors_origins", &fault))
        })
        .await?;
    Ok((!origins.is_empty()).then_some(origins))
}
