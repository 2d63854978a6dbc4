//! Fuzzes every parser of outside bytes with mutations of valid inputs: it never panics, and accepts no forgery.
//!
//! `scripts/test unit` runs 20,000 cases of each test, `scripts/test --long unit` a million. A failure prints the seed of
//! its case; with the name of the test, `STAMPEDE_SEED` repeats it alone.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

use std::env;

use altcha::{Payload, SolveChallengeOptions, solve_challenge};
use base64::{Engine, prelude::BASE64_STANDARD};
use domain::{
    activity::ActivitySpec,
    address::Address,
    api::{
        admission::{ChallengeOptions, Reservation, Solution},
        operators::{Ban, ReplayEvents, Restock},
    },
    body, client_address,
    human_check::{CheckKeys, PuzzleKind, Subject},
    ids::{ActivityId, OrderNo, UserId},
    jwt::{Verifier, unverified_user},
    money::Money,
    order_number::OrderNumberKeys,
    routes::{self, Endpoint},
    sandbox_session::SandboxSession,
    stripe,
    ticket::{Ticket, TicketKeys},
    time::Millis,
    webhook::{WebhookHeaders, sign_standard, verify_standard, verify_stripe},
};
use fastrand::Rng;
use http::Method;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;
use ulid::Ulid;

const SECRET: &str = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";
const WEBHOOK_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// Bytes that have a meaning in some of the formats.
const SPECIAL: &[u8] = b".,=-_/+\"'{}[]:;%&? \t\r\n\0\xff0aA~";

/// Returns a variant of `input`: up to four bytes or ranges are changed, removed, repeated or inserted.
fn mutate(rng: &mut Rng, input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..rng.usize(1..=4) {
        let at = rng.usize(0..=bytes.len());
        let end = (at + rng.usize(0..=16)).min(bytes.len());
        match rng.u8(0..7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.splice(at..at, input[..rng.usize(0..=input.len())].to_vec()).for_each(drop),
            3 => bytes.insert(at, SPECIAL[rng.usize(0..SPECIAL.len())]),
            4 => bytes.insert(at, rng.u8(..)),
            5 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(0..8),
            _ if at < bytes.len() => bytes[at] = SPECIAL[rng.usize(0..SPECIAL.len())],
            _ => {}
        }
    }
    bytes
}

/// Calls `check` with mutations of `inputs`, each from a seed of its own.
fn fuzz(inputs: &[&[u8]], check: impl Fn(&[u8])) {
    let cases = if env::args().any(|argument| argument == "--include-ignored") { 1_000_000 } else { 20_000 };
    let only: Option<u64> = env::var("STAMPEDE_SEED").ok().map(|seed| seed.parse().expect("STAMPEDE_SEED is a number"));
    for seed in only.map_or(0..cases, |seed| seed..seed + 1) {
        let mut rng = Rng::with_seed(seed);
        let input = inputs[rng.usize(0..inputs.len())];
        let bytes = mutate(&mut rng, input);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&bytes)));
        assert!(result.is_ok(), "STAMPEDE_SEED={seed} repeats this case: {:?}", String::from_utf8_lossy(&bytes));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn activity() -> ActivityId {
    ActivityId::parse("demo").expect("id")
}

fn user() -> UserId {
    UserId::parse("ada@example.com").expect("id")
}

#[test]
fn a_changed_ticket_is_forged() {
    let keys = TicketKeys::new(SECRET);
    let ticket = Ticket { activity: activity(), ulid: Ulid(7), expires_at: Millis(9_000_000), level: 1, user: user() };
    let valid = keys.issue(&ticket).expect("a ticket");
    fuzz(&[valid.as_bytes()], |bytes| {
        let text = text(bytes);
        assert!(keys.verify_signature(&text).is_err() || text == valid);
        let _ = keys.verify(&text, &activity(), Millis(0));
    });
}

#[test]
fn a_changed_token_is_forged() {
    let verifier = Verifier::new("HS256", SECRET, "shop", "stampede").expect("a verifier");
    let claims = json!({"sub": "ada", "exp": 4_000_000_000_i64, "iss": "shop", "aud": "stampede"});
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let valid = encode(&Header::new(Algorithm::HS256), &claims, &key).expect("a token");
    fuzz(&[valid.as_bytes()], |bytes| {
        let text = text(bytes);
        assert!(verifier.verify(&text).is_err() || text == valid);
        let _ = unverified_user(&text);
    });
}

#[test]
fn a_changed_webhook_is_refused() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs() as i64;
    let body = br#"{"type":"payment.succeeded","data":{"order_no":"demo.1","amount":100}}"#;
    let signature = sign_standard(WEBHOOK_SECRET, "evt_1", Millis(now * 1000), body).expect("signed");
    let time = now.to_string();
    fn headers<'a>(id: &'a str, timestamp: &'a str, signature: &'a str) -> WebhookHeaders<'a> {
        WebhookHeaders { id: Some(id), timestamp: Some(timestamp), signature: Some(signature) }
    }
    assert!(verify_standard(WEBHOOK_SECRET, &headers("evt_1", &time, &signature), body));
    fuzz(&[signature.as_bytes(), time.as_bytes(), b"evt_1", body], |bytes| {
        let odd = text(bytes);
        let check = |headers: WebhookHeaders<'_>, sent: &[u8]| verify_standard(WEBHOOK_SECRET, &headers, sent);
        // A list of signatures may contain the valid one.
        let is_valid = odd.split(' ').any(|item| item == signature);
        assert!(!check(headers("evt_1", &time, &odd), body) || is_valid);
        assert!(!check(headers("evt_1", &odd, &signature), body) || odd == time);
        assert!(!check(headers(&odd, &time, &signature), body) || odd == "evt_1");
        assert!(!check(headers("evt_1", &time, &signature), bytes) || bytes == body);
    });
}

#[test]
fn a_changed_stripe_header_is_refused() {
    use hmac::{Hmac, Mac};
    let body = br#"{"id":"evt_1","type":"refund.updated","data":{"object":{"id":"re_1","status":"succeeded"}}}"#;
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).expect("a key");
    mac.update(b"1000.");
    mac.update(body);
    let signature = hex::encode(mac.finalize().into_bytes());
    let header = format!("t=1000,v1={signature}");
    assert!(verify_stripe(WEBHOOK_SECRET, &header, body, Millis(1_000_000)));
    fuzz(&[header.as_bytes(), body], |bytes| {
        let odd = text(bytes);
        let accepted = verify_stripe(WEBHOOK_SECRET, &odd, body, Millis(1_000_000));
        assert!(!accepted || odd.contains("=1000") && odd.to_ascii_lowercase().contains(&signature));
        assert!(!verify_stripe(WEBHOOK_SECRET, &header, bytes, Millis(1_000_000)) || bytes == body);
        let _ = stripe::parse_event(bytes);
    });
}

#[test]
fn a_changed_proof_of_work_is_refused() {
    let (keys, activity, user) = (CheckKeys::new(SECRET), activity(), user());
    let (subject, now) = (Subject { activity: &activity, user: &user }, Millis(4_000_000_000_000));
    let challenge = keys.issue_altcha(subject, 1, 3, now).expect("a challenge");
    let solution = solve_challenge(SolveChallengeOptions::new(&challenge)).expect("solvable").expect("in time");
    let json = serde_json::to_string(&Payload { challenge, solution }).expect("JSON");
    let valid = keys.verify_altcha(&BASE64_STANDARD.encode(&json), subject, now).expect("a proof");
    fuzz(&[json.as_bytes()], |bytes| {
        // A change that the signature does not cover, such as white space, leaves the same check.
        let found = keys.verify_altcha(&BASE64_STANDARD.encode(bytes), subject, now);
        assert!(found.is_err() || found.as_ref() == Ok(&valid), "{found:?}");
        let _ = keys.verify_altcha(&text(bytes), subject, now);
    });
}

#[test]
fn a_changed_puzzle_or_session_is_refused() {
    let (keys, activity, user) = (CheckKeys::new(SECRET), activity(), user());
    let subject = Subject { activity: &activity, user: &user };
    let puzzle = keys.issue_puzzle(subject, PuzzleKind::Sum, 9, Millis(0)).expect("a puzzle").token;
    let order_no = OrderNo::parse("demo.01ARZ3NDEKTSV4RRFFQ69G5FAV").expect("an order number");
    let session = SandboxSession::new(order_no, Money::new(100, "EUR"), Millis(0)).sign(SECRET).expect("signed");
    fuzz(&[puzzle.as_bytes(), session.as_bytes()], |bytes| {
        let text = text(bytes);
        assert!(keys.verify_puzzle(&text, subject, Millis(1)).is_err() || text == puzzle);
        assert!(SandboxSession::verify(SECRET, &text, Millis(1)).is_none() || text == session);
    });
}

#[test]
fn a_changed_order_number_is_unknown() {
    let keys = OrderNumberKeys::new(SECRET);
    let ulid = keys.issue(&activity(), Millis(1_700_000_000_000), 5).expect("a number");
    let valid = OrderNo::new(activity(), ulid);
    let sample = valid.to_string();
    fuzz(&[sample.as_bytes()], |bytes| {
        if let Ok(order_no) = OrderNo::parse(&text(bytes)) {
            assert!(!keys.verify(&order_no) || order_no == valid, "{order_no}");
        }
    });
}

/// A path that is found has no empty segment: there is no second name of a route.
#[test]
fn every_path_has_one_name() {
    let samples: Vec<String> =
        routes::TABLES.iter().flat_map(|(_, routes)| *routes).map(|route| route.pattern.replace(':', "")).collect();
    let inputs: Vec<&[u8]> = samples.iter().map(String::as_bytes).collect();
    fn find<E: Endpoint + std::fmt::Debug>(path: &str) {
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            if let Ok((endpoint, params)) = routes::find::<E>(&method, path) {
                let exact = path.starts_with('/') && path[1..].split('/').all(|segment| !segment.is_empty());
                assert!(exact, "{path:?} is {endpoint:?}");
                assert!(params.iter().all(|param| !param.contains('/')));
            }
        }
    }
    fuzz(&inputs, |bytes| {
        let path = text(bytes);
        find::<routes::Activity>(&path);
        find::<routes::Admission>(&path);
        find::<routes::Reserve>(&path);
        find::<routes::OrderStatus>(&path);
        find::<routes::Checkout>(&path);
        find::<routes::PaymentCallback>(&path);
        find::<routes::ExpirySweeper>(&path);
        find::<routes::Admin>(&path);
        find::<routes::Sandbox>(&path);
    });
}

/// No body panics; an activity's spec that is accepted means the same after it was written and read again.
#[test]
fn bodies_are_read_or_refused() {
    let activity = json!({"title": "A", "starts_at": "2030-01-01T00:00:00Z", "ends_at": "2030-01-02T00:00:00Z",
        "limits": {"user": {"count": 5, "seconds": 60}, "ip": null}, "eligibility": {"allow": ["ada"]},
        "skus": [{"sku": "a", "name": "A", "price": 100, "currency": "EUR", "total": 5}]})
    .to_string();
    let address = json!({"address": {"name": "Ada", "line1": "1 Mill Lane", "city": "London", "postal_code": "N1", "country": "GB"}}).to_string();
    let samples = [
        activity.as_bytes(),
        address.as_bytes(),
        br#"{"sku":"a","quantity":1,"ticket":"1.x","start_key":"k"}"#,
        br#"{"seconds":60,"reason":"robot"}"#,
        br#"{"by":5,"from":3}"#,
        br#"{"altcha":"x","captcha":{"id":"slider.x","answer":7,"track":[[1,2]]}}"#,
    ];
    fuzz(&samples, |bytes| {
        if let Ok(spec) = body::parse::<ActivitySpec>(bytes)
            && spec.validate().is_empty()
        {
            let written = serde_json::to_vec(&spec).expect("JSON");
            assert_eq!(body::parse::<ActivitySpec>(&written).expect("its own JSON"), spec);
        }
        if let Ok(checkout) = body::parse::<domain::api::orders::Checkout>(bytes) {
            let _ = Address::parse(&checkout.address);
        }
        let _ = body::parse::<Reservation>(bytes);
        let _ = body::parse::<Ban>(bytes);
        let _ = body::parse::<Restock>(bytes);
        let _ = body::parse::<ReplayEvents>(bytes);
        let _ = body::parse::<ChallengeOptions>(bytes);
        let _ = body::parse::<Solution>(bytes);
    });
}

#[test]
fn a_client_address_is_normalized() {
    let inputs: [&[u8]; 4] =
        [b"203.0.113.1, 198.51.100.4", b"[2001:db8::1]:443", b"::ffff:198.51.100.3", b"2001:db8:1:2::/64"];
    fuzz(&inputs, |bytes| {
        for hops in [0, 1, 2, usize::MAX] {
            for peer in [Some(&b"192.0.2.1:1"[..]), None] {
                let key = client_address::limit_key(peer, [bytes].into_iter(), hops);
                let is_address = key.len() <= 24 && key.bytes().all(|b| b.is_ascii_hexdigit() || b".:/".contains(&b));
                assert!(is_address || key == "unknown", "{key}");
            }
        }
        let _ = client_address::normalize(&text(bytes));
    });
}
