//! Fuzzes every parser of outside bytes with mutations of valid inputs: it never panics, and accepts no forgery.
//!
//! `scripts/test unit` runs 20,000 cases of each test, `scripts/test --long unit` a million. A failure prints the seed of
//! its case; with the name of the test, `STAMPEDE_SEED` repeats it alone.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

#[path = "fuzz/mutations.rs"]
mod mutations;

use altcha::{Payload, SolveChallengeOptions, solve_challenge};
use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use domain::{
    activity::ActivitySpec,
    address::Address,
    api::{
        admission::{ChallengeOptions, Reservation, Solution},
        operators::{Ban, ReplayEvents, Restock, Shedding},
        orders::{CallbackBody, SessionEnded},
        payments::{PaymentCall, RefundAnswer, SessionClosed, SessionOpened},
    },
    client_address,
    http::{
        body,
        request::{Headers, Request, RequestIds, content_length},
        routes::{self, Endpoint},
    },
    human_check::{CheckError, CheckKeys, LIFETIME_MS, PuzzleKind, Subject},
    ids::{ActivityId, OrderNo, UserId},
    jwt::{
        Verifier,
        key_set::{KeySet, KeySetVerifier},
        unverified_user,
    },
    money::Money,
    order_number::OrderNumberKeys,
    sandbox_session::SandboxSession,
    siteverify::{self, Verdict},
    stripe,
    ticket::{Ticket, TicketError, TicketKeys},
    time::Millis,
    webhook::{sign_standard, verify_standard, verify_stripe},
};
use http::Method;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use mutations::fuzz;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use ulid::Ulid;

const SECRET: &str = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";
const WEBHOOK_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

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
    assert_eq!(keys.verify(&valid, &activity(), Millis(9_000_000)), Err(TicketError::Expired));
    let other = ActivityId::parse("other").expect("id");
    assert_eq!(keys.verify(&valid, &other, Millis(0)), Err(TicketError::OtherActivity));
    assert_eq!(keys.verify(&valid, &activity(), Millis(8_999_999)), Ok(ticket));
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
    let check = |id: &str, timestamp: &str, signature: &str, sent: &[u8]| {
        let headers = [("webhook-id", id), ("webhook-timestamp", timestamp), ("webhook-signature", signature)];
        verify_standard(WEBHOOK_SECRET, &&headers[..], sent)
    };
    assert!(check("evt_1", &time, &signature, body));
    fuzz(&[signature.as_bytes(), time.as_bytes(), b"evt_1", body], |bytes| {
        let odd = text(bytes);
        // A list of signatures may contain the valid one.
        let is_valid = odd.split(' ').any(|item| item == signature);
        assert!(!check("evt_1", &time, &odd, body) || is_valid);
        assert!(!check("evt_1", &odd, &signature, body) || odd == time);
        assert!(!check(&odd, &time, &signature, body) || odd == "evt_1");
        assert!(!check("evt_1", &time, &signature, bytes) || bytes == body);
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
    let check = |header: &str, seconds: i64| verify_stripe(WEBHOOK_SECRET, header, body, Millis(seconds * 1000));
    assert_eq!([699, 700, 1_300, 1_301].map(|now| check(&header, now)), [false, true, true, false]);
    assert!(check(&format!("t=1000,v1=00,v1={signature},v0=1"), 1_000), "one of several");
    fuzz(&[header.as_bytes(), body], |bytes| {
        let odd = text(bytes);
        assert!(!check(&odd, 1_000) || odd.contains("=1000") && odd.to_ascii_lowercase().contains(&signature));
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
    let nonce = challenge.parameters.nonce.clone();
    let json = serde_json::to_string(&Payload { challenge, solution }).expect("JSON");
    let with_secrets =
        |secrets: &str, now| CheckKeys::new(secrets).verify_altcha(&BASE64_STANDARD.encode(&json), subject, now);
    let valid = with_secrets(SECRET, now).expect("a proof");
    assert_eq!(valid.id, nonce);
    assert_eq!(with_secrets(SECRET, now.plus(LIFETIME_MS)), Err(CheckError::Expired));
    assert_eq!(with_secrets(&format!("Zt5-new-new-9Qw7e2r4u6i8o0p1a3s5d7f {SECRET}"), now).as_ref(), Ok(&valid));
    assert_eq!(with_secrets("another-9Qw7e2r4u6i8o0p1a3s5d7f-xx", now), Err(CheckError::Forged));
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
    let [issued, other] =
        [9, 10].map(|random| keys.issue_puzzle(subject, PuzzleKind::Sum, random, Millis(0)).expect("a puzzle"));
    assert_ne!(issued.seed, other.seed);
    let puzzle = issued.token.clone();
    assert_eq!(keys.verify_puzzle(&puzzle, subject, Millis(LIFETIME_MS)), Err(CheckError::Expired));
    assert_eq!(keys.verify_puzzle(&puzzle, subject, Millis(1)), Ok(issued));
    let order_no = OrderNo::parse("demo.01ARZ3NDEKTSV4RRFFQ69G5FAV").expect("an order number");
    let opened = SandboxSession::new(order_no, 1, Money::new(100, "EUR"), Millis(0));
    let (session, end) = (opened.sign(SECRET).expect("signed"), opened.expires_at);
    assert_eq!(SandboxSession::verify(SECRET, &session, end), None);
    assert_eq!(SandboxSession::verify("another secret", &session, Millis(1)), None);
    assert_eq!(SandboxSession::verify(SECRET, &session, Millis(1)), Some(opened));
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
        find::<routes::BuyerOrders>(&path);
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
        br#"{"from":"2030-01-01T00:00:00Z","on":true}"#,
        br#"{"altcha":"x","captcha":{"id":"slider.x","answer":7,"track":[[1,2]]}}"#,
    ];
    fuzz(&samples, |bytes| {
        if let Ok(spec) = body::parse::<ActivitySpec>(bytes)
            && spec.validate().is_empty()
        {
            let written = serde_json::to_vec(&spec).expect("JSON");
            assert_eq!(body::parse::<ActivitySpec>(&written).expect("its own JSON"), spec);
        }
        if let Ok(checkout) = body::parse::<domain::api::orders::CheckoutBody>(bytes) {
            let _ = checkout.address.as_ref().map(Address::parse);
        }
        let _ = body::parse::<Reservation>(bytes);
        let _ = body::parse::<Ban>(bytes);
        let _ = body::parse::<Restock>(bytes);
        let _ = body::parse::<ReplayEvents>(bytes);
        let _ = body::parse::<Shedding>(bytes);
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

/// What a provider of hosted checks answers: a token passes only if the provider says so, for one of the shop's hosts.
#[test]
fn a_hosted_check_passes_only_on_a_page_of_the_shop() {
    let passed = br#"{"success":true,"hostname":"shop.example","action":"ticket","error-codes":[]}"#;
    let failed = br#"{"success":false,"error-codes":["timeout-or-duplicate"]}"#;
    assert_eq!(siteverify::verdict(200, passed, "shop.example"), Verdict::Passed);
    fuzz(&[passed, failed], |bytes| {
        for (status, hosts) in [(200, "shop.example"), (200, ""), (503, "shop.example")] {
            if siteverify::verdict(status, bytes, hosts) == Verdict::Passed {
                // The bytes of members that are not read need not be UTF-8.
                let reply: serde_json::Value = serde_json::from_str(&text(bytes)).expect("JSON");
                let host = reply["hostname"].as_str().expect("a host").to_ascii_lowercase();
                let is_solved = reply["success"] == true && reply["action"].as_str().is_none_or(|it| it == "ticket");
                assert!(is_solved && host == hosts && status == 200, "{reply}");
            }
        }
    });
}

/// What an issuer publishes: a set never verifies a token that the provider's key did not sign.
#[test]
fn a_changed_key_set_verifies_no_forged_token() {
    // RFC 8037, appendix A: a key and its public part.
    let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
    let own = json!({"kty": "OKP", "crv": "Ed25519", "kid": "a", "use": "sig", "alg": "EdDSA",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    let rsa = json!({"kty": "RSA", "kid": "b", "n": "u1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gun", "e": "AQAB"});
    let ec = json!({"kty": "EC", "crv": "P-256", "kid": "c", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"});
    let set = json!({ "keys": [own, rsa, ec] }).to_string();
    let claims = json!({"sub": "ada", "exp": 4_000_000_000_i64, "iss": "shop", "aud": "stampede"});
    let header = Header { kid: Some("a".to_owned()), ..Header::new(Algorithm::EdDSA) };
    let token = encode(&header, &claims, &EncodingKey::from_ed_pem(pem.as_bytes()).expect("a key")).expect("a token");
    let shared = EncodingKey::from_secret(b"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
    let confused = encode(&Header { alg: Algorithm::HS256, ..header }, &claims, &shared).expect("a token");
    let (_, rest) = token.split_once('.').expect("a token");
    let with_header = |header: &str| format!("{}.{rest}", BASE64_URL_SAFE_NO_PAD.encode(header));
    let forged = [confused, with_header(r#"{"alg":"RS256","kid":"b"}"#), with_header(r#"{"alg":"ES256","kid":"c"}"#)];
    let verifier = KeySetVerifier::new("RS256 ES256 EdDSA", "shop", "stampede").expect("algorithms");
    let keys = KeySet::parse(set.as_bytes()).expect("keys");
    assert!(verifier.verify(&token, &keys).is_ok());
    fuzz(&[set.as_bytes(), token.as_bytes()], |bytes| {
        if let Ok(keys) = KeySet::parse(bytes) {
            let _ = verifier.verify(&token, &keys);
            for forged in &forged {
                assert!(verifier.verify(forged, &keys).is_err());
            }
        }
        let odd = text(bytes);
        assert!(verifier.verify(&odd, &keys).is_err() || odd == token);
    });
}

/// Callbacks and calls of payment services: what is read means the same after it was written and read again.
#[test]
fn messages_about_payments_are_read_or_refused() {
    fn is_stable<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
        if let Ok(value) = serde_json::from_slice::<T>(bytes) {
            let written = serde_json::to_vec(&value).expect("JSON");
            assert_eq!(serde_json::from_slice::<T>(&written).expect("its own JSON"), value);
        }
    }
    let samples: [&[u8]; 6] = [
        br#"{"session":"cs_1","url":"https://pay.example/cs_1"}"#,
        br#"{"status":"paid","payment":"pay_1","amount":100,"currency":"EUR"}"#,
        br#"{"refund":"re_1","status":"failed","reason":"closed account"}"#,
        br#"{"type":"session.close","data":{"session":"cs_1","order_no":"demo.01ARZ3NDEKTSV4RRFFQ69G5FAV"}}"#,
        br#"{"type":"payment.succeeded","timestamp":"2030-01-01T00:00:00Z","data":{"order_no":"demo.1","session":"s","payment":"p","amount":100,"currency":"EUR"}}"#,
        br#"{"type":"session.ended","timestamp":"2030-01-01T00:00:00Z","data":{"order_no":"demo.1","session":"s"}}"#,
    ];
    fuzz(&samples, |bytes| {
        is_stable::<SessionOpened>(bytes);
        is_stable::<SessionClosed>(bytes);
        is_stable::<RefundAnswer>(bytes);
        is_stable::<PaymentCall>(bytes);
        let _ = body::parse::<CallbackBody>(bytes);
        let _ = body::parse::<SessionEnded>(bytes);
        let _ = stripe::parse_event(bytes);
    });
}

struct Line<'a>(&'static str, &'a [u8]);

impl Headers for Line<'_> {
    fn values(&self, name: &str) -> Vec<Vec<u8>> {
        if self.0 == name { vec![self.1.to_vec()] } else { Vec::new() }
    }
}

/// A request id goes into headers and logs as it is.
#[test]
fn header_lines_are_read_or_ignored() {
    let inputs: [&[u8]; 4] = [b"0190-abc", b"Bearer eyJhbGciOiJIUzI1NiJ9.e30.x", b"W/\"a\", \"b\", *", b"16384"];
    fuzz(&inputs, |bytes| {
        let id = RequestIds::new(7).id(&Line("x-request-id", bytes));
        assert!((1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "{id}");
        let request = |line| Request::new(Method::GET, text(bytes), line, Vec::new(), String::new());
        if let Some(token) = request(Line("authorization", bytes)).bearer() {
            assert!(token.is_ascii() && token.trim() == token, "{token:?}");
        }
        let _ = request(Line("if-none-match", bytes)).matches_etag("\"a\"");
        let _ = request(Line("", bytes)).query_param("before");
        let _ = content_length(&Line("content-length", bytes));
    });
}
