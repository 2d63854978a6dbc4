//! Limits, addresses, bans by themselves, rotation of keys (A4, B2, B4, B6).

use std::time::{Duration, Instant};

use domain::{
    ids::{ActivityId, UserId},
    ticket::{Ticket, TicketKeys},
    time::Millis,
};
use futures::{StreamExt, future::join_all, stream};
use jsonwebtoken::Algorithm;
use reqwest::Method;
use serde_json::{Value, json};
use ulid::Ulid;

use support::{Answer, Buyer, Claims, Sale, TestApp, eventually};

/// Nobody but addresses is limited: two in ten minutes.
fn two_per_address() -> Value {
    json!({"limits": {"user": null, "ip": {"count": 2, "seconds": 600}, "all": null}})
}

#[tokio::test(flavor = "multi_thread")]
async fn challenges_and_tickets_are_limited_and_say_until_when() {
    let app = TestApp::shared();
    let limits = json!({"user": {"count": 3, "seconds": 600}, "ip": null, "all": null});
    let sale = app.sale(json!({"human_check": "pow", "limits": limits})).await;
    let ada = app.sign_in("ada");
    for (desk, body, status) in [("challenge", json!({}), 200), ("ticket", json!({}), 403)] {
        let path = format!("/api/activities/{}/{desk}", sale.id);
        let answers = join_all((0..10).map(|_| app.http.post(&path, &ada, &body))).await;
        let (served, limited): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == status);
        assert_eq!((served.len(), limited.len()), (3, 7), "{desk}: {limited:?}");
        for answer in limited {
            let answer = answer.is_problem(429, "rate_limited");
            assert_eq!(answer.json()["violated-policies"], json!(["user"]), "{answer:?}");
            assert_eq!(answer.header("ratelimit-policy"), r#""user";q=3;w=600"#);
            assert!(answer.header("ratelimit").starts_with(r#""user";r=0;t="#), "{answer:?}");
            let wait = answer.header("retry-after").parse::<u32>().expect("seconds");
            assert!((1..=200).contains(&wait), "{answer:?}");
        }
    }
    let other = app.http.post(&format!("/api/activities/{}/challenge", sale.id), &app.sign_in("ben"), &json!({})).await;
    assert!(other.is(200).header("ratelimit").starts_with(r#""user";r=2;"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_a_client_makes_up_changes_nothing() {
    let app = TestApp::shared();
    let sale = app.sale(two_per_address()).await;
    // Getting the sale ready has used some of it up.
    let mut seen = Vec::new();
    for at in 0..6 {
        let (forwarded, peer) = (format!("203.0.113.{at}, 198.51.100.{at}"), format!("192.0.2.{at}:1"));
        // The engine's own word for the peer, too.
        let forged = [("x-forwarded-for", forwarded.as_str()), ("spin-client-addr", peer.as_str())];
        seen.push(app.ticket_claiming(&sale, &app.sign_in(&format!("user-{at}")), &forged).await.status);
    }
    assert_eq!(seen[2..], [429; 4], "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_trusted_proxies_the_address_before_them_counts_and_ipv6_by_its_network() {
    let old = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";
    let app = TestApp::with(|variables| {
        let new = variables.get("ticket_secret").to_owned();
        variables.set("ticket_secret", format!("{new} {old}"));
        variables.set("trusted_hops", "2");
    });
    let sale = app.sale(two_per_address()).await;
    let statuses = async |addresses: &[&str]| {
        let mut statuses = Vec::new();
        for (at, address) in addresses.iter().enumerate() {
            statuses.push(app.ticket_from(&sale, &app.sign_in(&format!("user-{at}")), address).await.status);
        }
        statuses
    };
    // What stands before the second from the right was written by anybody.
    let forged = ["1.1.1.1, 203.0.113.5, 10.0.0.1", "2.2.2.2, 203.0.113.5, 10.0.0.1", "203.0.113.5, 10.0.0.2"];
    assert_eq!(statuses(&forged).await, [201, 201, 429]);
    // A proxy may write a line of its own, below the one that the client wrote.
    let line = |text| ("x-forwarded-for", text);
    let lines = [line("1.1.1.1, 2.2.2.2"), line("203.0.113.5, 10.0.0.1")];
    app.ticket_claiming(&sale, &app.sign_in("liner"), &lines).await.is_problem(429, "rate_limited");
    assert_eq!(statuses(&["203.0.113.6, 10.0.0.1"]).await, [201]);
    assert_eq!(statuses(&["é, 203.0.113.6, 10.0.0.1"; 2]).await, [201, 429]);
    let network = ["2001:db8:1:2::1, 10.0.0.1", "2001:db8:1:2:ffff::9, 10.0.0.1", "[2001:db8:1:2:3:4:5:6], 10.0.0.1"];
    assert_eq!(statuses(&network).await, [201, 201, 429]);
    assert_eq!(statuses(&["2001:db8:1:3::1, 10.0.0.1"]).await, [201]);
    // A list that is too short, or nonsense, is not from our proxies: the peer counts.
    let short = statuses(&["203.0.113.7", "203.0.113.8", "garbage, 10.0.0.1", "203.0.113.9"]).await;
    assert_eq!(short[2..], [429, 429], "{short:?}");

    // The same app has two ticket secrets: a ticket of the older one still reserves, and new ones are of the newer.
    let ticket = |user: &str| Ticket {
        activity: ActivityId::parse(&sale.id).expect("id"),
        ulid: Ulid::from_parts(1, 7),
        expires_at: Millis(4_000_000_000_000),
        level: 0,
        user: UserId::parse(user).expect("id"),
    };
    let of_old = TicketKeys::new(old).issue(&ticket("ada")).expect("a ticket");
    let from = |ticket: String| Buyer { user: "ada".to_owned(), jwt: app.sign_in("ada"), ticket };
    app.reserve(&sale, &from(of_old), "a", 1).await.is(202);
    let unknown = TicketKeys::new("Zt5-new-new-9Qw7e2r4u6i8o0p1a3s5d7f").issue(&ticket("ada")).expect("a ticket");
    app.reserve(&sale, &from(unknown), "a", 1).await.is_problem(401, "ticket_invalid");
    let fresh = app.ticket_from(&sale, &app.sign_in("ben"), "203.0.113.99, 10.0.0.1").await.is(201).text("ticket");
    assert!(fresh.len() <= 300 && TicketKeys::new(old).identify(&fresh).is_err(), "{fresh}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_was_left_open_too_long_is_no_abuse_and_a_forged_token_is() {
    let app = TestApp::shared();
    let old = Claims::of("ada", &app.variables).with("exp", json!(1));
    let forged = old.sign_with(Algorithm::HS256, "another key that is long enough to sign");
    for (token, is_abuse) in [(old.sign(&app.variables), false), (forged, true)] {
        let sale = app.sale(json!({})).await;
        for at in 0..20 {
            join_all((0..10).map(|_| app.ticket(&sale.id, &token))).await.iter().for_each(|answer| {
                assert_eq!((answer.status, answer.code().as_str()), (401, "unauthenticated"), "{answer:?}");
            });
            // With this, an instance tells what it has counted.
            app.ticket(&sale.id, &app.sign_in(&format!("user-{at}"))).await.is(201);
        }
        let key = format!("{{{}}}:abuse:ip:127.0.0.1", sale.id);
        let counted: Option<i64> =
            redis::cmd("HGET").arg(key).arg("count").query_async(&mut app.redis().await).await.expect("a count");
        assert_eq!(counted.is_some(), is_abuse, "{counted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_hammers_is_limited_and_then_banned_and_others_are_not() {
    let app = TestApp::shared();
    let limits = json!({"user": {"count": 5, "seconds": 60}, "ip": null, "all": null});
    let sale = app.sale(json!({ "limits": limits, "per_user": 2 })).await;
    let (robot, calm) = (app.buyer(&sale, "hammerer").await, app.buyer(&sale, "calm").await);
    let conflict = || app.reserve(&sale, &robot, "a", 2);
    app.reserve(&sale, &robot, "a", 1).await.is(202);
    let answers: Vec<Answer> = stream::iter(0..200).map(|_| conflict()).buffer_unordered(16).collect().await;
    let count = |code: &str| answers.iter().filter(|answer| answer.code() == code).count();
    assert_eq!(count("ticket_conflict"), 4);
    assert!((60..80).contains(&count("rate_limited")), "{} limited", count("rate_limited"));
    assert_eq!(count("ticket_conflict") + count("rate_limited") + count("banned"), 200);
    app.ticket(&sale.id, &robot.jwt).await.is_problem(403, "banned");
    app.reserve(&sale, &calm, "a", 1).await.is(202);
    // Operators lift a ban of ours as they lift their own.
    app.admin(Method::DELETE, "/bans/user/hammerer", &Value::Null).await.is(204);
    app.ticket(&sale.id, &robot.jwt).await.is(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_start_key_is_seen_everywhere_within_two_seconds_and_the_old_one_is_worth_nothing() {
    let app = TestApp::shared();
    let (sale, other) = (app.sale(json!({"per_user": 1})).await, app.sale(json!({})).await);
    let (ada, ben) = (app.buyer(&sale, "ada").await, app.buyer(&sale, "ben").await);
    let with_key_of_other = Sale { start_key: other.start_key.clone(), ..sale.clone() };
    app.reserve(&with_key_of_other, &ada, "a", 1).await.is_problem(403, "start_key_invalid");
    app.rotate_start_key(&sale).await.is(200);
    let start = Instant::now();
    // F5, for who asks later than that, however long the answer is on its way.
    let in_time = |asked: Duration| assert!(asked < Duration::from_secs(2), "the old key for who asks after {asked:?}");
    app.reserve(&sale, &ada, "a", 1).await.is_problem(403, "start_key_invalid");
    let fresh = eventually("the new key in the gate", async || {
        let asked = start.elapsed();
        let key = app.http.get(&format!("/api/activities/{}/gate.json", sale.id), "").await.is(200).text("start_key");
        if key != sale.start_key {
            return Ok(Sale { start_key: key, ..sale.clone() });
        }
        in_time(asked);
        Err(key)
    })
    .await;
    eventually("the new key at every instance", async || {
        let asked = start.elapsed();
        let wishes = (0..8).map(|_| app.reserve(&fresh, &ada, "a", 1));
        let answers = join_all(wishes).await;
        if answers.iter().all(|answer| answer.status == 202) {
            return Ok(());
        }
        in_time(asked);
        Err(format!("{answers:?}"))
    })
    .await;
    app.reserve(&sale, &ben, "a", 1).await.is_problem(403, "start_key_invalid");
    app.rotate_start_key(&Sale { id: "no-such-sale".to_owned(), ..sale }).await.is_problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_would_be_too_long_lets_nobody_in_and_keeps_every_other_lane_open() {
    let app = TestApp::own();
    let sale = app.sale(json!({"max_wait_seconds": 1, "per_user": 2})).await;
    let (ada, ben) = (app.buyer(&sale, "ada").await, app.buyer(&sale, "ben").await);
    let (pays, cancels) = (app.order(&sale, &ada).await, app.order(&sale, &ben).await);
    // A backlog as it would be if the writer had died: ten thousand waiting, and a thousand written in a second.
    let queue = format!("{{{}}}:queue", sale.id);
    let mut redis = app.redis().await;
    let [enqueued, written]: [i64; 2] =
        redis::cmd("HMGET").arg(&queue).arg("enqueued").arg("written").query_async(&mut redis).await.expect("a queue");
    let set: redis::Cmd = redis::Cmd::hset_multiple(&queue, &[("enqueued", enqueued + 10_000), ("rate", 1_000)]);
    let _: () = set.query_async(&mut redis).await.expect("a backlog");
    let late = app.buyer(&sale, "late").await;
    let refused = app.reserve(&sale, &late, "a", 1).await.is_problem(503, "overloaded");
    assert_eq!(refused.header("retry-after"), "9", "{refused:?}");
    app.pay(&pays, &ada.jwt).await;
    app.wait_for(&pays, &ada.ticket, "paid").await;
    app.cancel(&cancels, &ben.jwt).await.is(200);
    let _: () = redis::Cmd::hset_multiple(&queue, &[("enqueued", enqueued), ("written", written)])
        .query_async(&mut redis)
        .await
        .expect("no backlog");
    app.reserve(&sale, &late, "a", 1).await.is(202);
}

#[tokio::test]
async fn a_flood_of_headers_is_refused_or_ignored_and_never_an_error_of_ours() {
    let app = TestApp::shared();
    let sale = app.sale(json!({})).await;
    let jwt = app.sign_in("ada");
    let path = format!("/api/activities/{}/ticket", sale.id);
    let list = vec!["203.0.113.1"; 400].join(", ");
    for headers in [
        (0..80).map(|at| (format!("x-flood-{at}"), "f".repeat(50))).collect::<Vec<_>>(),
        vec![("x-forwarded-for".to_owned(), list.clone())],
        vec![("x-forwarded-for".to_owned(), ",,,, ,\"<>;".to_owned())],
        vec![("x-request-id".to_owned(), "r".repeat(4_000))],
        vec![("ratelimit".to_owned(), "\"user\";r=999".to_owned())],
    ] {
        let mut sent = vec![("authorization", format!("Bearer {jwt}"))];
        sent.extend(headers.iter().map(|(name, value)| (name.as_str(), value.clone())));
        app.http.raw(Method::POST, &path, &sent, "").await.expect("an answer").is(201);
    }
}
