//! Completes request URIs and creates the responses of the host itself.

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{
    Request, Response, StatusCode, Uri,
    header::HOST,
    uri::{Authority, Scheme},
};
use http_body_util::{BodyExt as _, Empty, Full};
use wasmtime_wasi_http::WasiBody;

/// Sets the scheme of the URI, and its authority from the `Host` header if the URI has none.
///
/// # Errors
/// If there is no authority, the `Host` header is malformed, or header and URI have different authorities.
pub fn set_authority<B>(request: &mut Request<B>, scheme: Scheme) -> anyhow::Result<()> {
    let from_header: Option<Authority> = match request.headers().get(HOST) {
        Some(host) => Some(
            host.to_str()
                .context("'Host' header is not valid UTF-8")?
                .parse()
                .context("'Host' header contains an invalid authority")?,
        ),
        None => None,
    };
    let mut parts = request.uri().clone().into_parts();
    let authority = match (from_header, parts.authority.take()) {
        (None, None) => bail!("no 'Host' header present in request"),
        (Some(header), Some(uri)) if header != uri => {
            bail!("authority in 'Host' header does not match authority in URI")
        }
        (Some(authority), _) | (None, Some(authority)) => authority,
    };
    parts.scheme = Some(scheme);
    parts.authority = Some(authority);
    *request.uri_mut() = Uri::from_parts(parts)?;
    Ok(())
}

/// Creates a response without a body.
pub fn empty_response(status: StatusCode) -> Response<WasiBody> {
    let mut response = Response::new(Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response
}

/// Creates a body from a string.
pub fn text_body(body: impl Into<Bytes>) -> WasiBody {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(host: Option<&str>, uri: &str) -> anyhow::Result<String> {
        let mut request = Request::get(uri);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let mut request = request.body(())?;
        set_authority(&mut request, Scheme::HTTP)?;
        Ok(request.uri().to_string())
    }

    #[test]
    fn the_authority_comes_from_the_header_or_the_uri_but_they_must_agree() {
        assert_eq!(authority(Some("a.example"), "/x").unwrap(), "http://a.example/x");
        assert_eq!(authority(None, "http://a.example/x").unwrap(), "http://a.example/x");
        assert!(authority(Some("b.example"), "http://a.example/x").is_err());
        assert!(authority(None, "/x").is_err());
        assert!(authority(Some("a b"), "/x").is_err());
    }
}
