#[path = "../../../stores/src/shared_value/machine.rs"]
mod machine;

use std::cell::RefCell;

use futures::future::join_all;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use stores::{
    http_client::{HttpResponse, NoResponse},
    ports::{RedisArg, RedisValue},
};

use self::machine::Machine;
use super::*;

const URL: &str = "https://id.example/jwks";

/// A key and its public part (RFC 8037, appendix A). The issuer publishes it under changing names.
const PEM: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n\
    -----END PRIVATE KEY-----\n";
const PUBLIC: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
const OTHER_PUBLIC: &str = "GZ9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE";

/// An issuer that takes 100 ms to answer, and the stores.
#[derive(Default)]
struct World {
    machine: Machine,
    /// Its answer; without one, it is away.
    answer: RefCell<Option<String>>,
}

impl HttpClient for World {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, NoResponse> {
        assert_eq!((request.method, &*request.url), ("GET", URL));
        self.machine.fetches.set(self.machine.fetches.get() + 1);
        self.machine.sleep(100).await;
        let body = self.answer.borrow().clone().ok_or_else(|| NoResponse("silence".to_owned()))?;
        Ok(HttpResponse { status: 200, headers: Vec::new(), body: body.into_bytes() })
    }
}

impl World {
    fn publishing(kids: &[&str]) -> Self {
        let world = Self::default();
        world.machine.now.set(1_000_000);
        world.publish(kids);
        world
    }

    fn publish(&self, kids: &[&str]) {
        self.publish_key(kids, PUBLIC);
    }

    fn publish_key(&self, kids: &[&str], x: &str) {
        let keys: Vec<Value> =
            kids.iter().map(|kid| json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x})).collect();
        *self.answer.borrow_mut() = Some(json!({ "keys": keys }).to_string());
    }

    fn pass(&self, ms: i64) {
        self.machine.now.set(self.machine.now.get() + ms);
    }

    /// Verifies a token that names the key `kid`, in the instance with this memory. Returns whether it is valid.
    async fn verify(&self, memory: &Flight<Memory>, kid: &str) -> Result<bool, StoreError> {
        Ok(self.verify_issued(memory, kid, 0).await?.is_ok())
    }

    async fn verify_issued(
        &self,
        memory: &Flight<Memory>,
        kid: &str,
        iat: i64,
    ) -> Result<Result<Claims, TokenError>, StoreError> {
        let header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::EdDSA) };
        let claims = json!({"sub": "ada", "exp": 4_000_000_000_i64, "iat": iat, "iss": "i", "aud": "a"});
        let token = encode(&header, &claims, &EncodingKey::from_ed_pem(PEM.as_bytes()).expect("a key"));
        let (redis, key_value) = (&self.machine, &self.machine);
        let keys = IssuerKeys { redis, key_value, http_client: self, url: URL, memory };
        let verifier = KeySetVerifier::new("EdDSA", "i", "a").expect("algorithms");
        keys.verify(&verifier, &token.expect("a token")).await
    }

    /// Verifies six tokens of the key `a` in each of these instances at once.
    fn verify_in_all(&self, memories: &[Flight<Memory>]) -> Vec<Result<bool, StoreError>> {
        let calls: Vec<_> = memories.iter().flat_map(|memory| (0..6).map(|_| self.verify(memory, "a"))).collect();
        // Of a known small number, which it polls without wakers.
        Machine::run(join_all(calls))
    }

    fn is_valid(&self, memory: &Flight<Memory>, kid: &str) -> Result<bool, StoreError> {
        Machine::run(self.verify(memory, kid))
    }
}

fn is_away<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::IssuerUnavailable(_)))
}

#[test]
fn a_key_that_is_new_is_fetched_and_a_key_that_is_gone_is_refused() {
    let world = World::publishing(&["a"]);
    let (memory, other) = (Flight::default(), Flight::default());
    assert_eq!(world.is_valid(&memory, "a"), Ok(true));
    assert_eq!(world.is_valid(&other, "a"), Ok(true));
    world.publish(&["b"]);
    world.pass(MIN_REFETCH_MS + 200);
    let rotated = Machine::run(join_all((0..16).map(|_| world.verify(&memory, "b"))));
    assert_eq!((rotated, world.machine.fetches.get()), (vec![Ok(true); 16], 2));
    assert_eq!(world.is_valid(&memory, "a"), Ok(false));
    assert_eq!(world.is_valid(&other, "b"), Ok(true), "the other instance reads the copy");
    assert_eq!(world.machine.fetches.get(), 2);
    // Fetched again after five to six minutes.
    world.pass(360_000);
    assert_eq!(world.is_valid(&other, "b"), Ok(true));
    assert_eq!(world.machine.fetches.get(), 3);
}

#[test]
fn a_new_key_under_an_old_name_is_fetched() {
    let world = World::publishing(&[]);
    world.publish_key(&["a"], OTHER_PUBLIC);
    let memory = Flight::default();
    assert_eq!(world.is_valid(&memory, "a"), Ok(false));
    world.publish(&["a"]);
    world.pass(MIN_REFETCH_MS + 200);
    assert_eq!(world.is_valid(&memory, "a"), Ok(true));
    assert_eq!(world.machine.fetches.get(), 2);
}

#[test]
fn a_token_of_an_unknown_key_that_is_newer_than_the_keys_is_not_refused() {
    let world = World::publishing(&["a"]);
    let memory = Flight::default();
    assert_eq!(world.is_valid(&memory, "a"), Ok(true));
    world.publish(&["b"]);
    let issued_at = world.machine.now.get() / 1_000 + 1;
    let verify = |seconds| Machine::run(world.verify_issued(&memory, "b", issued_at - seconds)).expect("keys");
    let unconfirmed = Err(TokenError::Unconfirmed);
    assert_eq!(verify(0), unconfirmed);
    assert_eq!(verify(60), unconfirmed, "the provider's clock may be 60 s behind");
    assert_eq!(verify(62), Err(TokenError::Forged), "an older token");
    world.pass(MIN_REFETCH_MS + 200);
    assert!(verify(0).is_ok());
}

#[test]
fn invented_names_of_keys_cost_a_request_in_ten_seconds() {
    let world = World::publishing(&["a"]);
    let memories: [Flight<Memory>; 4] = Default::default();
    for round in 0..40 {
        for (index, memory) in memories.iter().enumerate() {
            assert_eq!(world.is_valid(memory, &format!("{round}-{index}")), Ok(false));
        }
        world.pass(500);
    }
    assert!((2..=3).contains(&world.machine.fetches.get()), "{} requests in 20 s", world.machine.fetches.get());
}

#[test]
fn invented_names_of_keys_make_an_instance_read_the_copy_once_a_second_at_most() {
    let world = World::publishing(&["a"]);
    let memory = Flight::default();
    assert_eq!(world.is_valid(&memory, "a"), Ok(true));
    *world.answer.borrow_mut() = None;
    world.pass(MIN_REFETCH_MS + 200);
    world.machine.reads.set(0);
    for round in 0..400 {
        assert_eq!(world.is_valid(&memory, &round.to_string()), Ok(false));
        world.pass(10);
    }
    assert!(world.machine.reads.get() <= 5, "{} reads in 4 s", world.machine.reads.get());
}

#[test]
fn an_issuer_that_is_away_or_answers_nonsense_leaves_the_known_keys_valid_for_a_day() {
    for answer in [None, Some("<html>"), Some(r#"{"keys":[]}"#)] {
        let world = World::publishing(&["a"]);
        let (memory, new) = (Flight::default(), Flight::default());
        assert_eq!(world.is_valid(&memory, "a"), Ok(true));
        *world.answer.borrow_mut() = answer.map(str::to_owned);
        for _ in 0..23 {
            world.pass(3_600_000);
            assert_eq!(world.is_valid(&memory, "a"), Ok(true));
            assert_eq!(world.is_valid(&new, "a"), Ok(true));
        }
        // Nobody can say whether a key that is unknown here is the issuer's.
        let issued_at = world.machine.now.get() / 1_000;
        let unknown = Machine::run(world.verify_issued(&memory, "b", issued_at));
        assert_eq!(unknown, Ok(Err(TokenError::Unconfirmed)), "{answer:?}");
        assert_eq!(world.is_valid(&memory, "a"), Ok(true), "after an error about another key");
        world.pass(2 * 3_600_000);
        assert!(is_away(world.is_valid(&memory, "a")), "{answer:?}");
    }
}

#[test]
fn without_keys_no_token_is_refused_and_the_issuer_is_asked_once_in_a_second() {
    let world = World::publishing(&[]);
    *world.answer.borrow_mut() = None;
    let memories: [Flight<Memory>; 4] = Default::default();
    assert!(world.verify_in_all(&memories).into_iter().all(is_away));
    assert_eq!(world.machine.fetches.get(), 1);
    world.publish(&["a"]);
    world.pass(1_200);
    assert_eq!(world.is_valid(&memories[0], "a"), Ok(true));
}

#[test]
fn a_copy_of_another_url_is_not_used() {
    let world = World::publishing(&["a"]);
    assert_eq!(world.is_valid(&Flight::default(), "a"), Ok(true));
    let mut copies = world.machine.copies.borrow_mut();
    let copy = copies.get_mut(SHARED.key).expect("a copy");
    *copy = String::from_utf8_lossy(copy).replace(URL, "https://evil.example/jwks").into_bytes();
    drop(copies);
    assert_eq!(world.is_valid(&Flight::default(), "a"), Ok(true));
    assert_eq!(world.machine.fetches.get(), 2);
}
