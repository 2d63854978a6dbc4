//! Invalid input on every route: refused with a reason, never a server error; orders, stock and the activity do not
//! change.

use std::net::Ipv4Addr;

use redis::AsyncCommands;
use reqwest::Method;
use serde_json::{Value, json};
use support::{
    Buyer, Response, TestActivity, TestApp,
    activity::{activity_spec, unique_id},
    exchange,
};

/// A valid ULID that no order has.
const UNKNOWN_ULID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// An activity, a buyer with an order, and a second buyer with an unused ticket.
struct Fixture {
    app: TestApp,
    activity: TestActivity,
    buyer: Buyer,
    order_no: String,
    second_buyer: Buyer,
}

impl Fixture {
    async fn create() -> Self {
        let app = TestApp::shared();
        let (activity, buyer, order_no) = app.create_order(json!({"per_user": 2})).await;
        let second_buyer = app.create_buyer(&activity, "ben").await;
        Self { app, activity, buyer, order_no, second_buyer }
    }

    fn orders_path(&self) -> String {
        format!("/api/activities/{}/orders", self.activity.id)
    }

    /// Every route with a body: method, path, token, and a valid body.
    fn routes_with_bodies(&self) -> Vec<(Method, String, String, Value)> {
        let (id, order_no) = (&self.activity.id, &self.order_no);
        let admin = self.app.variables.get("admin_token");
        let admin_path = format!("/api/admin/activities/{id}");
        let reservation = TestApp::reservation_body(&self.activity, &self.second_buyer, "a", 1);
        let ban = json!({"seconds": 1, "reason": "x"});
        [
            (Method::POST, self.orders_path(), "", reservation),
            (Method::POST, format!("/api/activities/{id}/ticket"), &self.buyer.jwt, json!({})),
            (Method::POST, format!("/api/activities/{id}/challenge"), &self.buyer.jwt, json!({})),
            (Method::POST, format!("/api/orders/{order_no}/checkout"), &self.buyer.jwt, json!({"address": {}})),
            (Method::PUT, admin_path.clone(), admin, activity_spec(&json!({}))),
            (Method::POST, format!("{admin_path}/skus/a/restock"), admin, json!({"by": 1})),
            (Method::PUT, "/api/admin/bans/user/mallory".to_owned(), admin, ban.clone()),
            (Method::PUT, "/api/admin/bans/ip/192.0.2.7".to_owned(), admin, ban),
            (Method::PUT, "/api/admin/shed".to_owned(), admin, json!({"on": false})),
            (Method::POST, "/sandbox/sign-in".to_owned(), "", json!({"user": "ada"})),
        ]
        .map(|(method, path, token, body)| (method, path, token.to_owned(), body))
        .into()
    }

    /// The activity's keys in Redis (except those that a refused request may change), the number of its orders, and its
    /// document from the admin API.
    async fn state(&self) -> Vec<String> {
        let mut redis = self.app.connect_redis().await;
        let mut keys: Vec<String> = redis.keys(format!("{{{}}}:*", self.activity.id)).await.expect("keys");
        keys.sort();
        let mut state = vec![];
        for key in keys {
            // These change without an order: statistics, rate limits, bans and abuse counts.
            if key.ends_with(":stats") || [":rate:", ":ban:", ":abuse:"].iter().any(|kind| key.contains(kind)) {
                continue;
            }
            if key.ends_with(":orders") {
                // A dump of the stream would include when its consumers last read it.
                let messages: redis::Value =
                    redis::cmd("XRANGE").arg(&key).arg("-").arg("+").query_async(&mut redis).await.expect("messages");
                state.push(format!("{key} {messages:?}"));
                continue;
            }
            let dump: Vec<u8> = redis::cmd("DUMP").arg(&key).query_async(&mut redis).await.expect("a value");
            state.push(format!("{key} {dump:x?}"));
        }
        state.push(format!("{} orders", self.app.count_orders(&self.activity.id, "1 = 1").await));
        let stored = self.app.call_admin(Method::GET, &format!("/activities/{}", self.activity.id), &Value::Null).await;
        state.push(stored.is(200).body);
        state
    }
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused_on_every_route_and_writes_nothing() {
    let fixture = Fixture::create().await;
    let before = fixture.state().await;
    for (method, path, token, valid_body) in fixture.routes_with_bodies() {
        let headers = [("authorization", format!("Bearer {token}"))];
        let text = valid_body.to_string();
        let (truncated, nested) = (&text[..text.len() - 1], "[".repeat(8_000));
        let mut bodies: Vec<&[u8]> = vec![b"{\"a\":\"\xff\xfe\"}"];
        bodies.extend([truncated, "[]", "null", "{}{}", &nested].map(str::as_bytes));
        bodies.extend((valid_body != json!({})).then_some(&b""[..]));
        for body in bodies {
            let sent = fixture.app.http.send_with_headers(method.clone(), &path, &headers, body.to_vec()).await;
            let case = String::from_utf8_lossy(&body[..body.len().min(40)]);
            sent.expect("an answer").of(case).is_problem(400, "invalid_request");
        }
    }
    assert_eq!(fixture.state().await, before);
}

#[tokio::test]
async fn a_body_of_more_than_sixteen_kibibytes_is_refused_on_every_route() {
    let fixture = Fixture::create().await;
    let before = fixture.state().await;
    for (method, path, token, mut valid_body) in fixture.routes_with_bodies() {
        valid_body["padding"] = json!("x".repeat(17 * 1024));
        fixture.app.http.send(method, &path, &token, &valid_body).await.is_problem(413, "payload_too_large");
    }
    // A chunked body, without `Content-Length`.
    let chunks = futures::stream::iter((0..20).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1024])));
    let body = reqwest::Body::wrap_stream(chunks);
    let response =
        fixture.app.http.send_with_headers(Method::POST, &fixture.orders_path(), &[], body).await.expect("an answer");
    response.is_problem(413, "payload_too_large");
    // Exactly 16 KiB are accepted.
    let mut reservation = TestApp::reservation_body(&fixture.activity, &fixture.second_buyer, "a", 1);
    reservation["padding"] = json!("");
    let padding = 16 * 1024 - reservation.to_string().len();
    reservation["padding"] = json!("x".repeat(padding));
    assert_eq!(reservation.to_string().len(), 16 * 1024);
    assert_eq!(fixture.state().await, before);
    fixture.app.http.post(&fixture.orders_path(), "", &reservation).await.is(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_arrives_in_pieces_is_read_whole() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    for (user, framing) in [("ada", "Content-Length"), ("ben", "Transfer-Encoding")] {
        let buyer = app.create_buyer(&activity, user).await;
        let body = TestApp::reservation_body(&activity, &buyer, "a", 1).to_string();
        let (first, rest) = body.split_at(10);
        let pieces = match framing {
            "Content-Length" => [format!("Content-Length: {}\r\n\r\n", body.len()), first.to_owned(), rest.to_owned()],
            _ => [
                "Transfer-Encoding: chunked\r\n\r\n".to_owned(),
                format!("{:x}\r\n{first}\r\n", first.len()),
                format!("{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len()),
            ],
        };
        let head = format!("POST /api/activities/{}/orders HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", activity.id);
        let [length, first, rest] = pieces;
        let pieces = [head + &length, first, rest];
        let response =
            exchange(Ipv4Addr::LOCALHOST, app.port(), &pieces.each_ref().map(|piece| piece.as_bytes())).await;
        assert!(response.starts_with("HTTP/1.1 202 "), "{framing}: {response}");
    }
}

#[tokio::test]
async fn a_reservation_with_an_invalid_member_is_refused_with_a_pointer_and_writes_nothing() {
    let fixture = Fixture::create().await;
    let before = fixture.state().await;
    let valid_body = TestApp::reservation_body(&fixture.activity, &fixture.second_buyer, "a", 1);
    let reserve_with = async |member: &str, value: Value| -> Response {
        let mut reservation = valid_body.clone();
        match (value.is_null(), reservation.as_object_mut()) {
            (true, Some(members)) => drop(members.remove(member)),
            _ => reservation[member] = value,
        }
        fixture.app.http.post(&fixture.orders_path(), "", &reservation).await
    };
    let (huge, long) = (json!(9_223_372_036_854_775_808_u64), json!("s".repeat(10_000)));
    for (member, values) in [
        ("quantity", [json!(0), json!(-1), json!(1.5), huge, json!("1"), json!([1])]),
        ("sku", [json!(7), json!(""), json!("a\u{0}"), json!("a b"), long, json!("{x}:stock")]),
    ] {
        for value in values {
            let response = reserve_with(member, value.clone()).await.of(value);
            response.is_problem(400, "invalid_request").points_at(&format!("/{member}"));
        }
    }
    reserve_with("ticket", json!(7)).await.is_problem(400, "invalid_request").points_at("/ticket");
    reserve_with("start_key", json!(7)).await.is_problem(400, "invalid_request").points_at("/start_key");
    for member in ["sku", "quantity", "ticket"] {
        reserve_with(member, Value::Null).await.is_problem(400, "invalid_request");
    }
    for key in [json!("wrong"), json!("k".repeat(10_000)), Value::Null] {
        reserve_with("start_key", key).await.is_problem(403, "start_key_invalid");
    }
    reserve_with("sku", json!("nothing-like-that")).await.is_problem(404, "not_found");
    reserve_with("quantity", json!(3)).await.is_problem(409, "limit_reached");
    assert_eq!(fixture.state().await, before);
    reserve_with("extra", json!("is ignored")).await.is(202);
}

#[tokio::test]
async fn unknown_resources_are_not_found() {
    let fixture = Fixture::create().await;
    let (app, jwt) = (&fixture.app, &fixture.buyer.jwt);
    let before = fixture.state().await;
    for activity_id in ["nowhere", "no%20where", "%00", "%7Bx%7D", "A", "..%2Fadmin", &"x".repeat(5_000), "%E4%BD%A0"] {
        for path in ["", "/gate.json", "/gate.js"] {
            app.http.get(&format!("/api/activities/{activity_id}{path}"), "").await.is_problem(404, "not_found");
        }
        app.request_ticket(activity_id, jwt).await.is_problem(404, "not_found");
        let reservation = TestApp::reservation_body(&fixture.activity, &fixture.second_buyer, "a", 1);
        let response = app.http.post(&format!("/api/activities/{activity_id}/orders"), "", &reservation).await;
        // The ticket of another activity may be refused first, without asking a store.
        assert!(["not_found", "ticket_invalid"].contains(&response.code().as_str()), "{response:?}");
    }
    let unknown_order = format!("{}.{UNKNOWN_ULID}", fixture.activity.id);
    let lowercase = fixture.order_no.to_lowercase();
    for order_no in [&unknown_order, "nowhere.x", "x", "%00", UNKNOWN_ULID, "a.b.c", &lowercase, &"9".repeat(5_000)] {
        app.get_order(order_no, jwt).await.is_problem(404, "not_found");
        app.checkout(order_no, jwt).await.is_problem(404, "not_found");
        app.cancel(order_no, jwt).await.is_problem(404, "not_found");
        app.refund(order_no, jwt).await.is_problem(404, "not_found");
    }
    for session in ["x", "%00", &"9".repeat(5_000), &format!("{unknown_order}.1000.EUR.x")] {
        app.submit_payment(session, "paid").await.is_problem(404, "not_found");
    }
    assert_eq!(fixture.state().await, before);
}

#[tokio::test]
async fn an_invalid_activity_spec_is_refused_and_replaces_nothing() {
    let fixture = Fixture::create().await;
    let before = fixture.state().await;
    let sku = |member: &str, value: Value| {
        let mut sku = json!({"sku": "a", "name": "A", "price": 1, "currency": "EUR", "total": 10});
        sku[member] = value;
        json!([sku])
    };
    for (changes, pointer) in [
        (json!({"title": ""}), "/title"),
        (json!({"title": 7}), "/title"),
        (json!({"title": "t".repeat(5_000)}), "/title"),
        (json!({"starts_at": "tomorrow"}), "/starts_at"),
        (json!({"ends_at": "2026-13-01T00:00:00Z"}), "/ends_at"),
        (json!({"pay_timeout_seconds": 0}), "/pay_timeout_seconds"),
        (json!({"pay_timeout_seconds": 1.5}), "/pay_timeout_seconds"),
        (json!({"pay_extension_seconds": -1}), "/pay_extension_seconds"),
        (json!({"per_user": 0}), "/per_user"),
        (json!({"per_user": "2"}), "/per_user"),
        (json!({"human_check": "magic"}), "/human_check"),
        // Its provider is not configured.
        (json!({"human_check": "hosted"}), "/human_check"),
        (json!({"limits": {"ip": {"count": 1, "seconds": 0}}}), "/limits/ip"),
        (json!({"limits": {"all": {"count": "many", "seconds": 1}}}), "/limits/all/count"),
        (json!({"eligibility": {"min_level": -1}}), "/eligibility/min_level"),
        (json!({"eligibility": {"allow": "ada"}}), "/eligibility/allow"),
        (json!({"skus": []}), "/skus"),
        (json!({"skus": sku("sku", json!("a b"))}), "/skus/0/sku"),
        (json!({"skus": sku("sku", json!("s".repeat(10_000)))}), "/skus/0/sku"),
        (json!({"skus": sku("price", json!(-1))}), "/skus/0/price"),
        (json!({"skus": sku("price", json!(9.99))}), "/skus/0/price"),
        (json!({"skus": sku("total", json!(9_223_372_036_854_775_808_u64))}), "/skus/0/total"),
        (json!({"skus": [sku("name", json!("A"))[0], sku("name", json!("B"))[0]]}), "/skus/1/sku"),
    ] {
        let path = format!("/activities/{}", fixture.activity.id);
        let response = fixture.app.call_admin(Method::PUT, &path, &activity_spec(&changes)).await;
        response.of(changes).is_problem(400, "invalid_request").points_at(pointer);
    }
    assert_eq!(fixture.state().await, before);
    for id in ["A", "a b", "-a", "%00", &"a".repeat(41)] {
        let response =
            fixture.app.call_admin(Method::PUT, &format!("/activities/{id}"), &activity_spec(&json!({}))).await;
        assert!(matches!(response.status, 400 | 404), "{response:?}");
    }
}

#[tokio::test]
async fn admin_calls_with_unknown_ids_or_invalid_bodies_are_refused() {
    let fixture = Fixture::create().await;
    let before = fixture.state().await;
    let (app, id) = (&fixture.app, &fixture.activity.id);
    let (post, put) = (Method::POST, Method::PUT);
    let nowhere = unique_id("nowhere");
    for action in ["publish", "pause", "resume", "close", "rebuild"] {
        let path = format!("/activities/{nowhere}/{action}");
        app.call_admin(post.clone(), &path, &Value::Null).await.is_problem(404, "not_found");
    }
    for action in ["stats", "audit"] {
        let unknown = app.call_admin(Method::GET, &format!("/activities/nowhere/{action}"), &Value::Null).await;
        assert_eq!(unknown.is_problem(404, "not_found").text("detail"), "There is no such sale.");
    }
    for path in [
        format!("/activities/{id}/skus/zzz/restock"),
        "/callbacks/%00/replay".to_owned(),
        "/callbacks/%00/refund".to_owned(),
        "/callbacks/%00/dismiss".to_owned(),
        format!("/dead-letters/{id}.{UNKNOWN_ULID}/replay"),
        "/dead-letters/nonsense/replay".to_owned(),
    ] {
        let body = if path.ends_with("restock") { json!({"by": 1}) } else { Value::Null };
        app.call_admin(post.clone(), &path, &body).await.is_problem(404, "not_found");
    }
    let restock = format!("/activities/{id}/skus/a/restock");
    for by in [json!("1"), json!(1.5), json!(0), json!(null), json!(9_223_372_036_854_775_808_u64)] {
        let response = app.call_admin(post.clone(), &restock, &json!({ "by": by })).await;
        response.is_problem(400, "invalid_request").points_at("/by");
    }
    // One of ten units is held: ten less would make the total smaller than that.
    app.call_admin(post, &restock, &json!({"by": -10})).await.is_problem(409, "state_conflict");
    let ban = json!({"seconds": 5, "reason": "x"});
    let (user, address) = ("/bans/user/mallory", "/bans/ip/not-an-address");
    for (path, body, pointer) in [
        ("/shed", json!({"on": "yes"}), Some("/on")),
        ("/shed", json!({}), None),
        (user, json!({"seconds": 0, "reason": "x"}), Some("/seconds")),
        (user, json!({"seconds": "x"}), Some("/seconds")),
        (user, json!({}), None),
        // PostgreSQL accepts no NUL in a text.
        (user, json!({"seconds": 5, "reason": "\0"}), Some("/reason")),
        (address, ban.clone(), None),
    ] {
        let response = app.call_admin(put.clone(), path, &body).await.of(body).is_problem(400, "invalid_request");
        if let Some(pointer) = pointer {
            response.points_at(pointer);
        }
    }
    for ip in ["10.0.0.1%2F64", "192.0.2.7%2F64%2F64", "::ffff:192.0.2.7%2F64", "2001:db8::%2F48"] {
        let response = app.call_admin(put.clone(), &format!("/bans/ip/{ip}"), &ban).await;
        let detail = response.is_problem(400, "invalid_request").text("detail");
        assert!(detail.starts_with("The path names no address"), "{detail}");
    }
    assert_eq!(fixture.state().await, before);
}

#[tokio::test]
async fn an_invalid_query_or_header_is_refused_or_ignored_without_a_server_error() {
    let fixture = Fixture::create().await;
    let jwt = &fixture.buyer.jwt;
    for query in
        ["limit=0", "limit=-1", "limit=x", "limit=1000000000", "limit=9223372036854775808", "before=x", "before=%00"]
    {
        fixture.app.http.get(&format!("/api/orders?{query}"), jwt).await.is_problem(400, "invalid_request");
    }
    for query in ["", "limit=", "before=", "limit=1", "nothing=1&limit=2", "&&&=&"] {
        fixture.app.http.get(&format!("/api/orders?{query}"), jwt).await.is(200);
    }
    let (addresses, long) = (vec!["203.0.113.1"; 400].join(", "), "r".repeat(4_000));
    for (name, value) in [
        ("x-forwarded-for", "not an address, 1.2.3.4, ::1, \t"),
        ("x-forwarded-for", ",,,, ,\"<>;"),
        ("x-forwarded-for", addresses.as_str()),
        ("x-request-id", "../../etc/passwd \" <script>"),
        ("x-request-id", long.as_str()),
        ("ratelimit", "\"user\";r=999"),
        ("if-none-match", "\"\",,,W/"),
        ("accept-encoding", "gzip;q=x, br;;;"),
        ("content-type", "text/plain"),
        ("authorization", "Basic YWRhOmFkYQ=="),
    ] {
        let headers = [(name, value.to_owned())];
        let reservation = TestApp::reservation_body(&fixture.activity, &fixture.buyer, "a", 1).to_string();
        let http = &fixture.app.http;
        let sent = http.send_with_headers(Method::POST, &fixture.orders_path(), &headers, reservation).await;
        let response = sent.expect("an answer").is(202);
        assert_ne!(response.header("x-request-id"), value, "an invalid request id was echoed: {response:?}");
    }
}
