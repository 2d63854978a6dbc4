//! Sends a `POST` request through WASI 0.2.

use wasip2::http::{
    outgoing_handler::handle,
    types::{Fields, Method, OutgoingBody, OutgoingRequest, Scheme},
};

/// Sends a `POST` without a body and with a bearer token; returns the status.
///
/// # Errors
/// A description of what failed, without the token.
pub fn post(app: &str, path: &str, token: &str) -> Result<u16, String> {
    let (scheme, authority) = scheme_and_authority(app).ok_or("app_url must be http://host:port or https://host")?;
    let headers = [("authorization", format!("Bearer {token}")), ("content-length", "0".to_owned())];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.into_bytes()));
    let request = OutgoingRequest::new(Fields::from_list(&headers).map_err(|error| error.to_string())?);
    let set = request
        .set_method(&Method::Post)
        .and_then(|()| request.set_scheme(Some(&scheme)))
        .and_then(|()| request.set_authority(Some(authority)))
        .and_then(|()| request.set_path_with_query(Some(path)))
        .and_then(|()| request.body());
    let body = set.map_err(|()| "app_url is no address".to_owned())?;
    let future_response = handle(request, None).map_err(|error| error.to_string())?;
    OutgoingBody::finish(body, None).map_err(|error| error.to_string())?;
    future_response.subscribe().block();
    match future_response.get() {
        Some(Ok(Ok(response))) => Ok(response.status()),
        Some(Ok(Err(error))) => Err(error.to_string()),
        _ => Err("no answer".to_owned()),
    }
}

/// Splits `http://host:port` into scheme and authority; `None` if there is a path or another scheme.
fn scheme_and_authority(url: &str) -> Option<(Scheme, &str)> {
    let (scheme, rest) = url.trim_end_matches('/').split_once("://")?;
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return None,
    };
    (!rest.is_empty() && !rest.contains('/')).then_some((scheme, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_and_a_host_and_nothing_else() {
        assert!(matches!(scheme_and_authority("http://127.0.0.1:3000/"), Some((Scheme::Http, "127.0.0.1:3000"))));
        assert!(matches!(scheme_and_authority("https://shop.example"), Some((Scheme::Https, "shop.example"))));
        for wrong in ["shop.example", "ftp://shop.example", "https://", "https://shop.example/a"] {
            assert!(scheme_and_authority(wrong).is_none(), "{wrong}");
        }
    }
}
