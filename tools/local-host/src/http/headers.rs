//! Adds Spin's request headers, which describe the route and the client.

use std::net::SocketAddr;

use anyhow::Context as _;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};

use super::routes::without_wildcard;
use crate::hosts::http::is_chaining_host;

/// The route that a request matched.
#[derive(Debug)]
pub struct RouteInfo<'a> {
    /// The route as written in the manifest.
    pub raw: &'a str,
    /// The route with a leading slash and without a trailing one.
    pub based: &'a str,
    /// The part of the path that the trailing wildcard matched.
    pub trailing: String,
    /// The values of the route's `:name` segments.
    pub named: Vec<(&'a str, &'a str)>,
}

/// Removes headers that must not reach a component: an internal `Host`, and `Connection`.
pub fn sanitize(headers: &mut HeaderMap) {
    if headers.get(header::HOST).is_some_and(is_chaining_host) {
        headers.remove(header::HOST);
    }
    // A hop-by-hop header: it must not be forwarded if the component passes the request's headers on.
    headers.remove(header::CONNECTION);
}

/// Appends the headers that Spin adds.
///
/// They do not replace headers of the same name that the client sent: the component sees the client's
/// value first and this host's value last, as with Spin.
///
/// # Errors
/// If a header of the request is not UTF-8, or the URI has no path.
pub fn append_spin_headers<B>(
    request: &mut Request<B>,
    route: &RouteInfo<'_>,
    client: SocketAddr,
) -> anyhow::Result<()> {
    for value in request.headers().values() {
        str::from_utf8(value.as_bytes()).context("a header of the request is not UTF-8")?;
    }
    let uri = request.uri();
    let host = match request.headers().get(header::HOST) {
        Some(host) => str::from_utf8(host.as_bytes())?,
        None => "localhost",
    };
    let path = uri.path_and_query().context("the request has no path")?.as_str();
    let full_url = format!("{}://{host}{path}", uri.scheme_str().unwrap_or("http"));

    let headers = request.headers_mut();
    headers.reserve(7 + route.named.len());
    let mut append = |name: HeaderName, value: &str| {
        // An invalid header value is left out, as with Spin.
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            headers.append(name, value);
        }
    };
    append(HeaderName::from_static("spin-path-info"), &route.trailing);
    append(HeaderName::from_static("spin-full-url"), &full_url);
    append(HeaderName::from_static("spin-matched-route"), route.based);
    append(HeaderName::from_static("spin-base-path"), "/");
    append(HeaderName::from_static("spin-raw-component-route"), route.raw);
    append(HeaderName::from_static("spin-component-route"), without_wildcard(route.raw));
    append(HeaderName::from_static("spin-client-addr"), &client.to_string());
    for (name, value) in &route.named {
        let name = format!("spin-path-match-{}", name.replace('_', "-").to_ascii_lowercase());
        if let Ok(name) = HeaderName::try_from(name) {
            append(name, value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request<()> {
        Request::get("http://shop.example/api/a1/orders?x=1")
            .header("host", "shop.example")
            .header("spin-client-addr", "1.2.3.4:5")
            .body(())
            .unwrap()
    }

    fn values(request: &Request<()>, name: &str) -> Vec<String> {
        let values = request.headers().get_all(name).iter();
        values.map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn spin_headers_describe_the_route_and_the_client() {
        let mut request = request();
        let route = RouteInfo {
            raw: "/api/:activity/...",
            based: "/api/:activity/...",
            trailing: "/orders".into(),
            named: vec![("activity", "a1")],
        };
        append_spin_headers(&mut request, &route, "127.0.0.1:8777".parse().unwrap()).unwrap();
        for (name, expected) in [
            ("spin-path-info", "/orders"),
            ("spin-full-url", "http://shop.example/api/a1/orders?x=1"),
            ("spin-matched-route", "/api/:activity/..."),
            ("spin-base-path", "/"),
            ("spin-raw-component-route", "/api/:activity/..."),
            ("spin-component-route", "/api/:activity"),
            ("spin-path-match-activity", "a1"),
        ] {
            assert_eq!(values(&request, name), [expected], "{name}");
        }
    }

    #[test]
    fn a_value_from_the_client_comes_before_the_hosts() {
        let mut request = request();
        let route = RouteInfo { raw: "/a", based: "/a", trailing: String::new(), named: vec![] };
        append_spin_headers(&mut request, &route, "127.0.0.1:8777".parse().unwrap()).unwrap();
        assert_eq!(values(&request, "spin-client-addr"), ["1.2.3.4:5", "127.0.0.1:8777"]);
    }

    #[test]
    fn a_client_cannot_impersonate_another_component() {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("cart.spin.internal"));
        headers.insert("connection", HeaderValue::from_static("close"));
        headers.insert("accept", HeaderValue::from_static("*/*"));
        sanitize(&mut headers);
        assert_eq!(headers.len(), 1);
    }
}
