//! Admission: rate limits, client addresses, strikes, bans, start key rotation (A4, B2, B4, B6).

use std::time::{Duration, Instant};

use domain::{
    ids::{ActivityId, UserId},
    ticket::{Ticket, TicketKeys},
    time::Millis,
};
use futures::future::join_all;
use jsonwebtoken::Algorithm;
use reqwest::Method;
use serde_json::{Value, json};
use support::{Buyer, Claims, TestActivity, TestApp, activity::unique_id, eventually, eventually_is};
use ulid::Ulid;

/// Limits each address to two tickets in ten minutes, and nothing else.
fn two_requests_per_address() -> Value {
    json!({"limits": {"user": null, "ip": {"count": 2, "seconds": 600}, "all": null}})
}

#[tokio::test(flavor = "multi_thread")]
async fn challenges_and_tickets_are_rate_limited_with_a_reset_time() {
    let app = TestApp::shared();
    let limits = json!({"user": {"count": 3, "seconds": 600}, "ip": null, "all": null});
    let activity = app.create_activity(json!({"human_check": "pow", "limits": limits})).await;
    let ada = app.sign_in("ada");
    for (endpoint, body, status) in [("challenge", json!({}), 200), ("ticket", json!({}), 403)] {
        let path = format!("/api/activities/{}/{endpoint}", activity.id);
        let responses = join_all((0..10).map(|_| app.http.post(&path, &ada, &body))).await;
        let (served, limited): (Vec<_>, Vec<_>) = responses.into_iter().partition(|response| response.status == status);
        assert_eq!((served.len(), limited.len()), (3, 7), "{endpoint}: {limited:?}");
        for response in limited {
            let response = response.is_problem(429, "rate_limited");
            assert_eq!(response.json()["violated-policies"], json!(["user"]), "{response:?}");
            assert_eq!(response.header("ratelimit-policy"), r#""user";q=3;w=600"#);
            assert!(response.header("ratelimit").starts_with(r#""user";r=0;t="#), "{response:?}");
            let wait = response.header("retry-after").parse::<u32>().expect("seconds");
            assert!((1..=200).contains(&wait), "{response:?}");
        }
    }
    let other =
        app.http.post(&format!("/api/activities/{}/challenge", activity.id), &app.sign_in("ben"), &json!({})).await;
    assert!(other.is(200).header("ratelimit").starts_with(r#""user";r=2;"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_client_address_changes_no_limit() {
    let app = TestApp::shared();
    let activity = app.create_activity(two_requests_per_address()).await;
    // `create_activity` has used some of this address's limit: check only the last four.
    let mut statuses = Vec::new();
    for index in 0..6 {
        let (forwarded, peer) = (format!("203.0.113.{index}, 198.51.100.{index}"), format!("192.0.2.{index}:1"));
        // `spin-client-addr` is the header in which the engine passes the peer's address.
        let forged = [("x-forwarded-for", forwarded.as_str()), ("spin-client-addr", peer.as_str())];
        let jwt = app.sign_in(&format!("user-{index}"));
        statuses.push(app.request_ticket_with_headers(&activity, &jwt, &forged).await.status);
    }
    assert_eq!(statuses[2..], [429; 4], "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_trusted_proxies_limits_count_the_address_before_them() {
    let app = TestApp::with_variables(|variables| variables.set("trusted_hops", "2"));
    let activity = app.create_activity(two_requests_per_address()).await;
    let status = async |address: &str| {
        app.request_ticket_through(&activity, &app.sign_in(&unique_id("user")), address).await.status
    };
    // With two trusted hops the second entry from the right counts; the client controls everything before it.
    for (address, expected) in [
        ("1.1.1.1, 203.0.113.5, 10.0.0.1", 201),
        ("2.2.2.2, 203.0.113.5, 10.0.0.1", 201),
        ("203.0.113.5, 10.0.0.2", 429),
        ("é, 203.0.113.6, 10.0.0.1", 201),
    ] {
        assert_eq!(status(address).await, expected, "{address}");
    }
    // A proxy may add a second header line after the client's.
    let line = |text| ("x-forwarded-for", text);
    let lines = [line("1.1.1.1, 2.2.2.2"), line("203.0.113.5, 10.0.0.1")];
    app.request_ticket_with_headers(&activity, &app.sign_in("liner"), &lines).await.is_problem(429, "rate_limited");
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_of_the_old_secret_are_accepted_and_new_tickets_use_the_new_one() {
    let old = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";
    let app = TestApp::with_variables(|variables| {
        let new = variables.get("ticket_secret").to_owned();
        variables.set("ticket_secret", format!("{new} {old}"));
    });
    let activity = app.create_activity(json!({})).await;
    let ticket = |user: &str| Ticket {
        activity: ActivityId::parse(&activity.id).expect("id"),
        ulid: Ulid::from_parts(1, 7),
        expires_at: Millis(4_000_000_000_000),
        level: 0,
        user: UserId::parse(user).expect("id"),
    };
    let old_ticket = TicketKeys::new(old).issue(&ticket("ada")).expect("a ticket");
    let with_ticket = |ticket: String| Buyer { user: "ada".to_owned(), jwt: app.sign_in("ada"), ticket };
    app.reserve(&activity, &with_ticket(old_ticket), "a", 1).await.is(202);
    let unknown = TicketKeys::new("Zt5-new-new-9Qw7e2r4u6i8o0p1a3s5d7f").issue(&ticket("ada")).expect("a ticket");
    app.reserve(&activity, &with_ticket(unknown), "a", 1).await.is_problem(401, "ticket_invalid");
    let fresh = app.create_buyer(&activity, "ben").await.ticket;
    assert!(fresh.len() <= 300 && TicketKeys::new(old).verify_signature(&fresh).is_err(), "{fresh}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_does_not_count_as_abuse_and_a_forged_one_does() {
    let app = TestApp::shared();
    let old = Claims::for_user("ada", &app.variables).with_claim("exp", json!(1));
    let forged = old.sign_with(Algorithm::HS256, "another key that is long enough to sign");
    for (token, is_abuse) in [(old.sign(&app.variables), false), (forged, true)] {
        let activity = app.create_activity(json!({})).await;
        for index in 0..20 {
            for response in join_all((0..10).map(|_| app.request_ticket(&activity.id, &token))).await {
                response.is_problem(401, "unauthenticated");
            }
            // A valid request makes the instance report its count to Redis.
            app.request_ticket(&activity.id, &app.sign_in(&format!("user-{index}"))).await.is(201);
        }
        let key = format!("{{{}}}:abuse:ip:127.0.0.1", activity.id);
        let mut redis = app.connect_redis().await;
        let counted: Option<i64> =
            redis::cmd("HGET").arg(&[&key, "count"]).query_async(&mut redis).await.expect("a count");
        assert_eq!(counted.is_some(), is_abuse, "{counted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_start_key_applies_everywhere_within_two_seconds_and_the_old_one_is_refused() {
    let app = TestApp::shared();
    let (activity, other) = (app.create_activity(json!({"per_user": 1})).await, app.create_activity(json!({})).await);
    let (ada, ben) = (app.create_buyer(&activity, "ada").await, app.create_buyer(&activity, "ben").await);
    let script = app.http.get(&format!("/api/activities/{}/gate.js", activity.id), "").await.is(200);
    assert!(script.header("content-type").starts_with("text/javascript"), "{script:?}");
    assert!(script.body.contains(&activity.start_key), "{script:?}");
    let with_key_of_other = TestActivity { start_key: other.start_key.clone(), ..activity.clone() };
    app.reserve(&with_key_of_other, &ada, "a", 1).await.is_problem(403, "start_key_invalid");
    app.rotate_start_key(&activity).await.is(200);
    let start = Instant::now();
    // F5 applies to the time at which a request is sent, however long its response takes.
    let in_time = |sent_after: Duration| {
        assert!(sent_after < Duration::from_secs(2), "a request sent after {sent_after:?} got the old key")
    };
    app.reserve(&activity, &ada, "a", 1).await.is_problem(403, "start_key_invalid");
    let gate = format!("/api/activities/{}/gate.json", activity.id);
    let fresh = eventually("the new key in the gate", async || {
        let sent_after = start.elapsed();
        let key = app.http.get(&gate, "").await.is(200).text("start_key");
        if key != activity.start_key {
            return Ok(TestActivity { start_key: key, ..activity.clone() });
        }
        in_time(sent_after);
        Err(key)
    })
    .await;
    eventually("the new key at every instance", async || {
        let sent_after = start.elapsed();
        let reservations = (0..8).map(|_| app.reserve(&fresh, &ada, "a", 1));
        let responses = join_all(reservations).await;
        if responses.iter().all(|response| response.status == 202) {
            return Ok(());
        }
        in_time(sent_after);
        Err(format!("{responses:?}"))
    })
    .await;
    app.reserve(&activity, &ben, "a", 1).await.is_problem(403, "start_key_invalid");
    let unknown = TestActivity { id: "no-such-sale".to_owned(), ..activity };
    app.rotate_start_key(&unknown).await.is_problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_left_ten_orders_unpaid_gets_no_ticket_until_the_strikes_are_cleared() {
    let app = TestApp::shared();
    let user = unique_id("striker");
    let jwt = app.sign_in(&user);
    let activity = app.create_activity(json!({"pay_timeout_seconds": 1, "per_user": 10})).await;
    let checked = app.create_activity(json!({"human_check": "pow"})).await;
    for _ in 0..10 {
        let buyer = app.create_buyer(&activity, &user).await;
        app.reserve(&activity, &buyer, "a", 1).await.is(202);
    }
    let strikes = format!("SELECT COALESCE(MAX(count), 0) FROM strikes WHERE user_id = '{user}'");
    eventually("ten strikes", async || {
        app.sweep().await;
        let strikes = app.query_ledger_i64(&strikes).await;
        if strikes == 10 { Ok(()) } else { Err(strikes) }
    })
    .await;
    app.request_ticket(&checked.id, &jwt).await.is_problem(403, "too_many_strikes");
    eventually("a refusal", async || {
        let response = app.request_ticket(&activity.id, &jwt).await;
        if response.code() == "too_many_strikes" { Ok(()) } else { Err(response.status) }
    })
    .await;
    app.request_ticket(&activity.id, &app.sign_in(&unique_id("other"))).await.is(201);
    app.call_admin(Method::DELETE, &format!("/strikes/{user}"), &Value::Null).await.is(204);
    eventually_is("a ticket", 201, async || app.request_ticket(&activity.id, &jwt).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_page_through_bans_whatever_is_in_a_name() {
    let app = TestApp::dedicated();
    let path = |segments: &[&str]| {
        let mut url = reqwest::Url::parse("http://app/").expect("a URL");
        url.path_segments_mut().expect("segments").extend(segments);
        url.path().to_owned()
    };
    let bans = [
        ("ip", "198.51.100.9"),
        ("ip", "2001:db8:1:2::/64"),
        ("user", "a b&c=d"),
        ("user", "a/b%2F"),
        ("user", "\u{e4}"),
    ];
    for (kind, name) in bans {
        app.call_admin(Method::PUT, &path(&["bans", kind, name]), &json!({"seconds": 60, "reason": "x"})).await.is(200);
    }
    let (mut next, mut listed) = (json!(""), Vec::new());
    while let Some(before) = next.as_str() {
        let query = reqwest::Url::parse_with_params("http://app/", [("before", before), ("limit", "1")]);
        let query = query.expect("a URL").query().unwrap_or_default().to_owned();
        let page = app.call_admin(Method::GET, &format!("/bans?{query}"), &Value::Null).await.is(200).json();
        let text = |name: &str| page["items"][0][name].as_str().unwrap_or_default().to_owned();
        next = page["next"].clone();
        listed.push((text("kind"), text("name")));
    }
    assert_eq!(listed, bans.map(|(kind, name)| (kind.to_owned(), name.to_owned())));
}
