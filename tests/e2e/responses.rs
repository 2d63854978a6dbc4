//! Properties of all responses, logs, and latency on a keep-alive connection (D5, D6, G6).

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::{Duration, Instant},
};

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use support::{TestApp, eventually, eventually_is, exchange};

#[tokio::test]
async fn pages_and_operator_routes_send_a_length_and_a_request_id() {
    // The test client checks these headers on every response; here it requests the routes that no other test does.
    let app = TestApp::shared();
    for path in ["/", "/healthz", "/readyz", "/metrics", "/api/activities", "/robots.txt"] {
        app.http.get(path, app.variables.get("metrics_token")).await.is(200);
    }
    app.http.get("/no-such-page.html", "").await.is(404);
}

#[tokio::test]
async fn a_request_id_from_the_client_is_kept() {
    let app = TestApp::shared();
    let headers = [("x-request-id", "abc-123".to_owned())];
    let response = app.http.send_with_headers(Method::GET, "/healthz", &headers, "").await.expect("an answer");
    assert_eq!(response.header("x-request-id"), "abc-123");
    let (one, two) = (app.http.get("/healthz", "").await, app.http.get("/healthz", "").await);
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
}

#[tokio::test]
async fn head_returns_the_headers_of_get_without_its_body() {
    let app = TestApp::shared();
    let activity = format!("/api/activities/{}", app.create_activity(json!({})).await.id);
    for path in ["/", "/healthz", "/metrics", &activity] {
        let head = app.http.send(Method::HEAD, path, app.variables.get("metrics_token"), &Value::Null).await.is(200);
        assert_eq!((head.body.as_str(), head.header("content-length") == "0"), ("", false), "{path}: {head:?}");
    }
    let refused = app.http.post("/healthz", "", &Value::Null).await;
    assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_sale_has_its_data_and_a_preview_for_those_who_run_no_scripts() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"title": "Lamps & <more>", "image": "/demo/lamp.svg"})).await;
    app.http.get(&format!("/api/activities/{}", activity.id), "").await.is(200);
    let page = eventually("a preview", async || {
        let page = app.http.get(&format!("/sale?activity={}", activity.id), "").await.is(200);
        if page.body.contains("og:title") { Ok(page.body) } else { Err(page.body) }
    })
    .await;
    assert!(page.contains(r#"<meta property="og:title" content="Lamps &amp; &lt;more&gt;">"#), "{page}");
    let shop = app.variables.get("shop_url");
    assert_ne!(shop, "http://127.0.0.1:3000", "it is where the app does not listen");
    for expected in [
        format!(r#"<meta property="og:url" content="{shop}/sale?activity={}">"#, activity.id),
        format!(r#"<meta property="og:image" content="{shop}/demo/lamp.svg">"#),
        r#"data-testid="title"><span>Lamps &amp; &lt;more&gt;</span>"#.to_owned(),
        r#"<article id="sale">"#.to_owned(),
    ] {
        assert!(page.contains(&expected), "{expected} is not in {page}");
    }
    let json = page.split_once(r#"id="first-data">"#).and_then(|(_, rest)| rest.split_once("</script>"));
    let data: Value = serde_json::from_str(json.expect("data").0).expect("JSON");
    let info = app.http.get(&format!("/api/activities/{}", activity.id), "").await.is(200).json();
    assert_eq!(data["activity"]["server_time"], Value::Null);
    for member in ["id", "title", "version", "starts_at", "ends_at", "per_user"] {
        assert_eq!(data["activity"][member], info[member], "{member}");
    }
    for path in ["/sale?activity=no-such-sale", "/sale?activity=%3Cb%3E", "/sale", "/orders"] {
        assert!(!app.http.get(path, "").await.is(200).body.contains("property=\"og:"), "{path}");
    }
}

#[tokio::test]
async fn an_unchanged_order_is_not_sent_again() {
    let app = TestApp::shared();
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    let first = app.get_order(&order_no, &buyer.ticket).await.is(200);
    assert!(first.header("retry-after").parse::<u32>().is_ok(), "{first:?}");
    let path = format!("/api/orders/{order_no}");
    let get_if_none_match = async |etag: &str| {
        let headers = [("authorization", format!("Bearer {}", buyer.ticket)), ("if-none-match", etag.to_owned())];
        app.http.send_with_headers(Method::GET, &path, &headers, "").await.expect("an answer")
    };
    // Another user of the device must not find it with the browser's Back.
    assert_eq!(first.header("cache-control"), "no-store");
    // A proxy that compresses makes the ETag weak.
    let etag = first.header("etag");
    for tags in [etag.to_owned(), format!("W/{etag}"), format!("\"other\", W/{etag}"), "*".to_owned()] {
        let second = get_if_none_match(&tags).await.is(304);
        assert!(second.body.is_empty(), "{second:?}");
    }
    app.cancel(&order_no, &buyer.jwt).await.is(200);
    // Redis hears of it after the answer.
    let third = eventually_is("the cancelled order", 200, async || get_if_none_match(first.header("etag")).await).await;
    assert_ne!(third.header("etag"), first.header("etag"));
}

#[tokio::test]
async fn a_users_orders_come_newest_first_in_pages() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"per_user": 5})).await;
    let jwt = app.sign_in("pager");
    let mut created = vec![];
    for _ in 0..3 {
        let buyer = app.create_buyer(&activity, "pager").await;
        created.insert(0, app.place_order(&activity, &buyer).await);
    }
    let page = async |before: &str| {
        let page = app.http.get(&format!("/api/orders?limit=2&before={before}"), &jwt).await.is(200).json();
        let orders = page["items"].as_array().expect("a list").iter();
        (orders.map(|order| order["order_no"].clone()).collect::<Vec<_>>(), page["next"].clone())
    };
    assert_eq!(page("").await, (created[..2].iter().map(|it| json!(it)).collect(), json!(created[1])));
    assert_eq!(page(&created[1]).await, (vec![json!(created[2])], Value::Null));
}

/// Sends `times` requests one after the other on one connection, and returns the latency of each.
fn measure_latencies(address: &str, request: &str, times: usize) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_nodelay(true).expect("no delay");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut latencies = vec![];
    for _ in 0..times {
        let start = Instant::now();
        stream.write_all(request.as_bytes()).expect("sent");
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).expect("a line") > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        latencies.push(start.elapsed());
    }
    latencies
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keep_alive_connection_does_not_wait_for_delayed_acks() {
    let app = TestApp::shared();
    let (activity, buyer, order_no) = app.create_order(json!({})).await;
    let address = app.with_app(|app| app.url().trim_start_matches("http://").to_owned());
    let reservation = TestApp::reservation_body(&activity, &buyer, "a", 1).to_string();
    let get =
        |path: &str, token: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
    let post = |path: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    for request in [
        get("/healthz", ""),
        get("/", ""),
        get("/api/activities", ""),
        get(&format!("/api/activities/{}/gate.json", activity.id), ""),
        get(&format!("/api/orders/{order_no}"), &buyer.ticket),
        get("/api/orders", &buyer.jwt),
        get("/api/orders", "wrong"),
        post(&format!("/api/activities/{}/orders", activity.id), &reservation),
        post(&format!("/api/activities/{}/orders", activity.id), "{}"),
    ] {
        let address = address.clone();
        let request_line = request.lines().next().unwrap_or_default().to_owned();
        let mut latencies =
            tokio::task::spawn_blocking(move || measure_latencies(&address, &request, 100)).await.expect("answers");
        latencies.sort_unstable();
        // A response sent in two packets waits 40 ms for the delayed ACK of the first, except for the first few.
        // Compare the 31st of 100: a busy machine delays some.
        let least = latencies[30];
        assert!(least < Duration::from_millis(30), "{request_line}: most answers took {least:?} or more");
    }
}

#[tokio::test]
async fn a_request_smuggling_attempt_does_not_desynchronise_the_connection() {
    let app = TestApp::shared();
    let get =
        |id: &str, header: &str| format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Request-Id: {id}\r\n{header}\r\n");
    // The smuggled request is the content of a chunk. By `Content-Length` the body ends before it, and a server that
    // ignored `Transfer-Encoding` would respond to it.
    let smuggled = get("smuggled", "");
    let request = format!(
        "POST /sandbox/sign-in HTTP/1.1\r\nHost: x\r\nX-Request-Id: first\r\nContent-Type: application/json\r\n\
        Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n{:02x}\r\n{smuggled}\r\n0\r\n\r\n{}",
        smuggled.len(),
        get("next", "Connection: close\r\n")
    );
    let responses = exchange(Ipv4Addr::LOCALHOST, app.port(), &[request.as_bytes()]).await;
    let ids: Vec<_> = responses.lines().filter_map(|line| line.strip_prefix("x-request-id: ")).collect();
    // The server may close the connection after such a request (RFC 9112, section 6.1), and then ignores the next one.
    assert!(matches!(ids[..], ["first"] | ["first", "next"]), "{responses}");
    assert_eq!(responses.matches("HTTP/1.1 ").count(), ids.len(), "{responses}");
    assert!(responses.starts_with("HTTP/1.1 400 "), "{responses}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_log_line_is_complete() {
    let app = TestApp::dedicated();
    let off = json!({"on": false});
    for _ in 0..10 {
        join_all((0..30).map(|_| app.call_admin(Method::PUT, "/shed", &off))).await;
    }
    // The log is read through a pipe and may arrive after the responses.
    eventually("the log of every change", async || {
        let output = app.with_app(|app| app.output());
        let (complete, broken): (Vec<_>, Vec<_>) = output
            .lines()
            .filter(|line| line.contains("\"event\"") || line.contains("\"level\""))
            .partition(|line| serde_json::from_str::<Value>(line).is_ok());
        assert!(broken.is_empty(), "{broken:#?}");
        if complete.len() >= 300 { Ok(()) } else { Err(format!("{} whole", complete.len())) }
    })
    .await;
}
