//! What nginx serves from its cache, and what it never caches (A1, A4, G9).

use std::{collections::HashSet, time::Duration};

use futures::{
    future::join_all,
    stream::{FuturesUnordered, StreamExt},
};
use reqwest::Method;
use serde_json::{Value, json};
use support::eventually;
use tokio::time::{Instant, interval, sleep};

use crate::fake_app::{FakeApp, NginxProxy};

const GATE_PATH: &str = "/api/activities/demo/gate.json";

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_gate_requests_reach_the_app_at_most_once_a_second() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    let start = Instant::now();
    let mut ticks = interval(Duration::from_millis(100));
    for round in 0..20 {
        ticks.tick().await;
        let requests = (0..10).map(async |number| {
            // Neither a query nor a token is part of the cache key.
            let path = format!("{GATE_PATH}?{round}-{number}");
            let token = if number == 0 { "somebody" } else { "" };
            nginx.http.get(&path, token).await.is(200).header("cache-control").to_owned()
        });
        for cache_control in join_all(requests).await {
            assert_eq!(cache_control, "public, max-age=0, s-maxage=1");
        }
    }
    // A copy lives for at least a second: nginx counts whole seconds.
    let max_requests = 1 + usize::try_from(start.elapsed().as_millis().div_ceil(1_000)).expect("a number");
    let requests = app.requests_containing(GATE_PATH);
    assert!((1..=max_requests).contains(&requests.len()), "200 requests became {}: {requests:#?}", requests.len());
    assert!(
        requests.iter().all(|request| request.target == GATE_PATH && request.header("authorization").is_empty()),
        "{requests:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_asks_for_a_sale_before_it_is_published_is_one_request_to_the_app() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    let path = "/api/activities/tomorrow/gate.json";
    for answer in join_all((0..50).map(|_| nginx.http.get(path, ""))).await {
        let answer = answer.is(404);
        assert_eq!(answer.header("cache-control"), "public, max-age=0, s-maxage=1");
    }
    assert_eq!(app.requests_containing(path).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_one_request_refreshes_the_gate_the_others_get_the_stale_one() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    let first = nginx.http.get(GATE_PATH, "").await.is(200);
    // Wait until the copy has expired: its second of lifetime, rounded up to whole seconds of nginx's clock.
    sleep(Duration::from_millis(2_050)).await;
    app.delay_responses(&[GATE_PATH]);
    let mut pending: FuturesUnordered<_> =
        (0..30).map(|_| async { nginx.http.get(GATE_PATH, "").await.is(200) }).collect();
    for _ in 0..29 {
        let old = tokio::time::timeout(Duration::from_secs(5), pending.next()).await.expect("an answer at once");
        assert_eq!(old.expect("an answer").body, first.body);
    }
    app.delay_responses(&[]);
    assert_ne!(pending.next().await.expect("an answer").body, first.body);
    assert_eq!(app.requests_containing(GATE_PATH).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn polled_lists_activities_and_gates_are_never_older_than_two_seconds() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    for path in ["/api/activities", "/api/activities/demo", "/api/activities/demo/gate.js", GATE_PATH] {
        let (mut current, mut since, mut changes, mut first) = (Value::Null, Instant::now(), 0, None);
        while changes < 3 {
            let sent_at = Instant::now();
            let number = nginx.http.get(path, "").await.is(200).json()["number"].clone();
            if number == current {
                let age = sent_at - since;
                assert!(age <= Duration::from_millis(2_100), "{path} is {age:?} old");
            } else {
                (current, since, changes) = (number, Instant::now(), changes + 1);
                first.get_or_insert(sent_at);
            }
            sleep(Duration::from_millis(20)).await;
        }
        let elapsed = first.expect("an answer").elapsed();
        let requests = app.requests_containing(path).iter().filter(|request| request.target == path).count();
        assert!(requests == 3 && elapsed >= Duration::from_millis(1_900), "{path}: {requests} requests in {elapsed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_fetched_once_for_each_encoding_and_nginx_answers_if_none_match() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    let get_page = async |encoding: &str, etag: &str, query: &str| {
        let headers = [("accept-encoding", encoding.to_owned()), ("if-none-match", etag.to_owned())];
        nginx.http.send_with_headers(Method::GET, &format!("/sale{query}"), &headers, "").await.expect("an answer")
    };
    let mut etags = HashSet::new();
    for (encoding, variant) in [("gzip, deflate, br", "br, gzip"), ("gzip;q=1.0", "gzip"), ("identity", "")] {
        let first = get_page(encoding, "", "?activity=demo").await.is(200);
        assert_eq!(first.header("x-variant"), variant);
        for query in ["?activity=demo&x=1", "?x=2&activity=demo", "?activity=demo&activity=lamps"] {
            let again = get_page(encoding, "", query).await.is(200);
            assert_eq!(again.body, first.body);
            assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
        }
        for query in ["?x", "?activity=../x", "?activity=%64emo", "?activity="] {
            get_page(encoding, "", query).await.is(200);
        }
        get_page(encoding, first.header("etag"), "?activity=demo").await.is(304);
        etags.insert(first.header("etag").to_owned());
    }
    let mut targets: Vec<_> = app.requests_containing("/sale").into_iter().map(|request| request.target).collect();
    targets.sort();
    assert_eq!(targets, [["/sale"; 3], ["/sale?activity=demo"; 3]].concat());
    assert_eq!(etags.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn personal_routes_are_never_cached_and_pass_the_token_on() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    for path in ["/api/orders/demo.1", "/api/orders", "/api/activities/demo/nothing"] {
        let [one, two] = [nginx.http.get(path, "ada").await.is(200), nginx.http.get(path, "bob").await.is(200)];
        assert_ne!(one.body, two.body, "{path} was cached");
    }
    for path in ["/api/activities/demo/ticket", "/api/activities/demo/challenge", "/api/activities/demo/orders"] {
        let [one, two] =
            [nginx.http.post(path, "ada", &json!({})).await, nginx.http.post(path, "bob", &json!({})).await];
        assert_ne!(one.body, two.body, "{path} was cached");
    }
    let tokens: Vec<String> =
        app.requests_containing("/").iter().map(|request| request.header("authorization").to_owned()).collect();
    assert_eq!(tokens, ["Bearer ada", "Bearer bob"].repeat(6));
    // `no-store` is respected where other responses are cached.
    for _ in 0..2 {
        nginx.http.get("/api/activities/unknown", "").await.is(200);
    }
    assert_eq!(app.requests_containing("unknown").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_pages_outlive_the_app_and_other_routes_return_503_with_retry_after() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    let page = nginx.http.get("/short", "").await.is(200);
    nginx.http.get(GATE_PATH, "").await.is(200);
    app.stop().await;
    // An expired gate is not served while the app is down: it would tell visitors that they can reserve.
    eventually("the gate to be forgotten", async || {
        let gate = nginx.http.get(GATE_PATH, "").await;
        if gate.status == 503 { Ok(gate.is_problem(503, "overloaded")) } else { Err(gate.body) }
    })
    .await;
    assert_eq!(nginx.http.get("/short", "").await.is(200).body, page.body);
    let busy = nginx.http.get("/never-seen", "").await.is(503);
    assert!(busy.body.contains("Very many people are here right now"), "{busy:?}");
    assert_eq!((busy.header("retry-after"), busy.header("cache-control")), ("2", "no-store"));
    nginx.http.post("/api/orders/demo.1/checkout", "ada", &json!({})).await.is_problem(503, "overloaded");
}
