//! What nginx answers itself, and what it never keeps (A1, A4, G9).

use std::{collections::HashSet, time::Duration};

use futures::{
    future::join_all,
    stream::{FuturesUnordered, StreamExt},
};
use reqwest::Method;
use serde_json::{Value, json};
use support::eventually;
use tokio::time::{Instant, interval, sleep};

use crate::stand_in::{Front, StandIn};

const GATE: &str = "/api/activities/demo/gate.json";

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_at_the_gate_asks_the_app_once_a_second() {
    let app = StandIn::start().await;
    let front = Front::before(&[&app]);
    let begun = Instant::now();
    let mut every = interval(Duration::from_millis(100));
    for round in 0..20 {
        every.tick().await;
        let asked = (0..10).map(async |number| {
            // Neither a query nor a token makes an answer another.
            let path = format!("{GATE}?{round}-{number}");
            let token = if number == 0 { "somebody" } else { "" };
            front.http.get(&path, token).await.is(200).header("cache-control").to_owned()
        });
        for cache in join_all(asked).await {
            assert_eq!(cache, "public, max-age=0, s-maxage=1");
        }
    }
    // A copy lasts a second or more, since nginx counts whole seconds.
    let most = 1 + usize::try_from(begun.elapsed().as_millis().div_ceil(1_000)).expect("a number");
    let seen = app.seen(GATE);
    assert!((1..=most).contains(&seen.len()), "200 requests became {}: {seen:#?}", seen.len());
    assert!(seen.iter().all(|seen| seen.target == GATE && seen.header("authorization").is_empty()), "{seen:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_one_asks_for_a_new_gate_the_others_get_the_old_one() {
    let app = StandIn::start().await;
    let front = Front::before(&[&app]);
    let first = front.http.get(GATE, "").await.is(200);
    // Its second is over, and that of the clock in which it came.
    sleep(Duration::from_millis(2_050)).await;
    app.hold(&[GATE]);
    let mut crowd: FuturesUnordered<_> = (0..30).map(|_| async { front.http.get(GATE, "").await.is(200) }).collect();
    for _ in 0..29 {
        let old = tokio::time::timeout(Duration::from_secs(5), crowd.next()).await.expect("an answer at once");
        assert_eq!(old.expect("an answer").body, first.body);
    }
    app.hold(&[]);
    assert_ne!(crowd.next().await.expect("an answer").body, first.body);
    assert_eq!(app.seen(GATE).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_is_never_older_than_two_seconds_while_people_ask() {
    let app = StandIn::start().await;
    let front = Front::before(&[&app]);
    for path in ["/api/activities", "/api/activities/demo", "/api/activities/demo/gate.js"] {
        let (mut current, mut since, mut changes, mut first) = (Value::Null, Instant::now(), 0, None);
        while changes < 3 {
            let asked = Instant::now();
            let number = front.http.get(path, "").await.is(200).json()["number"].clone();
            if number == current {
                let age = asked - since;
                assert!(age <= Duration::from_millis(2_100), "{path} is {age:?} old for who asks now");
            } else {
                (current, since, changes) = (number, Instant::now(), changes + 1);
                first.get_or_insert(asked);
            }
            sleep(Duration::from_millis(20)).await;
        }
        let took = first.expect("an answer").elapsed();
        let seen = app.seen(path).iter().filter(|seen| seen.target == path).count();
        assert!(seen == 3 && took >= Duration::from_millis(1_900), "{path} was asked for {seen} times in {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_fetched_once_for_each_encoding_and_revalidated_here() {
    let app = StandIn::start().await;
    let front = Front::before(&[&app]);
    let ask = async |encoding: &str, tag: &str, query: &str| {
        let headers = [("accept-encoding", encoding.to_owned()), ("if-none-match", tag.to_owned())];
        front.http.raw(Method::GET, &format!("/sale{query}"), &headers, "").await.expect("an answer")
    };
    let mut tags = HashSet::new();
    for (encoding, variant) in [("gzip, deflate, br", "br"), ("gzip;q=1.0", "gzip"), ("identity", "")] {
        let first = ask(encoding, "", "?activity=demo").await.is(200);
        assert_eq!(first.header("x-variant"), variant);
        for query in ["", "?activity=lamps", "?x"] {
            let again = ask(encoding, "", query).await.is(200);
            assert_eq!(again.body, first.body);
            assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
        }
        ask(encoding, first.header("etag"), "").await.is(304);
        tags.insert(first.header("etag").to_owned());
    }
    assert_eq!((tags.len(), app.seen("/sale").len()), (3, 3), "{:#?}", app.seen("/sale"));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_for_one_person_reach_the_app_each_time_with_their_token() {
    let app = StandIn::start().await;
    let front = Front::before(&[&app]);
    for path in ["/api/orders/demo.1", "/api/orders", "/api/activities/demo/nothing", "/sandbox/pay/1"] {
        let [one, two] = [front.http.get(path, "ada").await.is(200), front.http.get(path, "bob").await.is(200)];
        assert_ne!(one.body, two.body, "{path} was kept");
    }
    for path in ["/api/activities/demo/ticket", "/api/activities/demo/challenge", "/api/activities/demo/orders"] {
        let [one, two] =
            [front.http.post(path, "ada", &json!({})).await, front.http.post(path, "bob", &json!({})).await];
        assert_ne!(one.body, two.body, "{path} was kept");
    }
    let tokens: Vec<String> = app.seen("/").iter().map(|seen| seen.header("authorization").to_owned()).collect();
    assert_eq!(tokens, ["Bearer ada", "Bearer bob"].repeat(7));
    // What says no-store is not kept where others are.
    for _ in 0..2 {
        front.http.get("/api/activities/unknown", "").await.is(200);
    }
    assert_eq!(app.seen("unknown").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_outlive_the_app_and_everything_else_says_when_to_come_back() {
    let app = StandIn::start().await;
    let front = Front::before(&[&app]);
    let page = front.http.get("/short", "").await.is(200);
    front.http.get(GATE, "").await.is(200);
    app.end().await;
    // The gate is not kept beyond its time: nobody should wait before one that is gone.
    eventually("the gate to be forgotten", async || {
        let gate = front.http.get(GATE, "").await;
        if gate.status == 503 { Ok(gate.is_problem(503, "overloaded")) } else { Err(gate.body) }
    })
    .await;
    assert_eq!(front.http.get("/short", "").await.is(200).body, page.body);
    let busy = front.http.get("/never-seen", "").await.is(503);
    assert!(busy.body.contains("Very many people are here right now"), "{busy:?}");
    assert_eq!((busy.header("retry-after"), busy.header("cache-control")), ("10", "no-store"));
    front.http.post("/api/orders/demo.1/checkout", "ada", &json!({})).await.is_problem(503, "overloaded");
}
