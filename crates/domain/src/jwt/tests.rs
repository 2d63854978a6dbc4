use jsonwebtoken::{EncodingKey, Header, encode};
use serde::Serialize;
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";
const FAR_FUTURE: i64 = 4_000_000_000;

fn verifier() -> Verifier {
    Verifier::new("HS256", SECRET, "shop", "stampede").expect("a strong secret")
}

fn claims() -> Value {
    json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede"})
}

fn sign(algorithm: Algorithm, claims: &impl Serialize, secret: &str) -> String {
    encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(secret.as_bytes())).expect("a token")
}

fn token(claims: &impl Serialize) -> String {
    sign(Algorithm::HS256, claims, SECRET)
}

/// A token with this claim, a JSON text, or without it.
fn token_with(name: &str, value: Option<&str>) -> String {
    let mut claims = HashMap::from([("sub", "\"ada\""), ("exp", "4e9"), ("iss", "\"shop\""), ("aud", "\"stampede\"")]);
    match value {
        Some(value) => claims.insert(name, value),
        None => claims.remove(name),
    };
    let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
    token(&claims.into_iter().map(|(name, value)| (name, raw(value))).collect::<HashMap<_, _>>())
}

/// Values of every type. Some fit a claim.
const VALUES: [&str; 20] = [
    "null",
    "true",
    "0",
    "-1",
    "1.5",
    "-1e300",
    "1e300",
    "1e999",
    "18446744073709551616",
    "\"\"",
    "\"3\"",
    "\"true\"",
    "\"2026-01-01\"",
    "\"\\ud800\"",
    "[]",
    "[3]",
    "[[\"vip\"], null, 1e999]",
    "{}",
    "{\"vip\": true}",
    "[{\"a\": [\"\\ud800\"]}]",
];

#[test]
fn an_optional_claim_that_cannot_be_read_counts_as_absent() {
    for value in VALUES {
        for name in ["level", "member", "groups", "nbf", "iat", "jti", "email_verified"] {
            if (name, value) == ("nbf", "1e300") || (name, value) == ("nbf", "18446744073709551616") {
                continue; // A time in the future.
            }
            let claims = verifier().verify(&token_with(name, Some(value))).map_err(|error| format!("{error:?}"));
            let claims = claims.unwrap_or_else(|error| panic!("{name} {value}: {error}"));
            let level = if name == "level" { value.parse().unwrap_or(0) } else { 0 };
            assert_eq!((claims.level, claims.member), (level, (name, value) == ("member", "true")), "{name} {value}");
            assert!(claims.groups.is_empty() || value.starts_with('"'), "{name} {value}: {:?}", claims.groups);
        }
    }
}

#[test]
fn a_time_may_have_a_fraction() {
    let now = get_current_timestamp();
    for (name, value, expected) in [
        ("exp", format!("{}.25", now + 600), Ok(())),
        ("exp", "1.7e300".to_owned(), Ok(())),
        ("exp", format!("{}.75", now - 3_600), Err(TokenError::Expired)),
        ("exp", "-0.5".to_owned(), Err(TokenError::Expired)),
        ("nbf", format!("{}.5", now - 1), Ok(())),
        ("nbf", format!("{}.5", now + 600), Err(TokenError::Early)),
    ] {
        assert_eq!(verifier().verify(&token_with(name, Some(&value))).map(drop), expected, "{name} {value}");
    }
}

#[test]
fn a_required_claim_that_is_missing_or_wrong_is_the_reason_of_the_refusal() {
    for name in ["sub", "exp", "iss", "aud"] {
        for value in [None].into_iter().chain(VALUES.map(Some)) {
            let is_time = name == "exp" && value.is_some_and(|value| value.parse().is_ok_and(f64::is_finite));
            let is_user =
                name == "sub" && value.is_some_and(|value| matches!(value, "\"3\"" | "\"true\"" | "\"2026-01-01\""));
            if !is_time && !is_user {
                let refused = verifier().verify(&token_with(name, value));
                assert_eq!(refused, Err(TokenError::Claim(name)), "{name} {value:?}");
            }
        }
    }
    for (name, value) in [("iss", "\"other\""), ("aud", "[\"other\"]"), ("sub", "\"a\\u0000b\"")] {
        let refused = verifier().verify(&token_with(name, Some(value)));
        assert_eq!(refused.map_err(TokenError::reason), Err(name));
    }
    assert!(verifier().verify(&token_with("aud", Some("[\"other\", \"stampede\"]"))).is_ok());
}

/// Characters that look like a space or like nothing.
const INVISIBLE: &str = "\u{a0}\u{3000}\u{2003}\u{2028}\u{feff}\u{ad}\u{200b}\u{200d}\u{202e}\u{2066}\u{2069}\u{2060}\
    \u{3164}\u{fe0f}\u{e0041}\u{2800}\u{fffb}\u{1d159}\u{16fe4}";

#[test]
fn a_token_whose_user_operators_cannot_name_is_refused() {
    let user_of = |user: &str| {
        let claims = json!({"sub": user, "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede"});
        verifier().verify(&token(&claims)).map(|claims| claims.sub)
    };
    let like_another = INVISIBLE.chars().flat_map(|invisible| [format!("a{invisible}"), format!("a{invisible}b")]);
    for user in like_another.chain([" ", " a", "a ", "a  b"].map(str::to_owned)) {
        assert_eq!(user_of(&user), Err(TokenError::Unnameable), "{user:?}");
    }
    for user in [
        ".ada",
        "...",
        "a..b",
        "a/.b",
        "/",
        "https://id.example/users/7",
        "SHOP\\ada",
        "Ada Lovelace",
        "a b c",
        "auth0|5f",
        "ada@example.com",
        "Zoë",
        "Zoe\u{308}",
        "伊藤 愛",
        "עדה",
        "अदा",
        "😀",
    ] {
        assert_eq!(user_of(user).as_ref().map(UserId::as_str), Ok(user));
    }
}

#[test]
fn the_unverified_user_is_the_subject_of_a_token() {
    let token = token(&json!({"sub": "ada"}));
    assert_eq!(unverified_user(&token).as_ref().map(UserId::as_str), Some("ada"));
    for odd in ["", "a", "a.b", "..", "a.e30.c", &"x".repeat(9_000)] {
        assert_eq!(unverified_user(odd), None, "{odd}");
    }
}

#[test]
fn a_token_with_hundreds_of_groups_is_read_and_one_of_more_than_12_kb_is_too_long() {
    let verify = |groups: usize| {
        let groups: Vec<_> = (0..groups).map(|n| format!("0c2e6ad4-72a7-4d3c-9d57-{n:012}")).collect();
        let token = token_with("groups", Some(&json!(groups).to_string()));
        (token.len(), verifier().verify(&token).map(|claims| claims.groups.len()))
    };
    assert_eq!(verify(200), (10_567, Ok(200)));
    assert_eq!(verify(240).1, Err(TokenError::TooLong));
}

#[test]
fn another_algorithm_or_key_is_refused_and_only_a_valid_signature_expires() {
    let old = json!({"sub": "ada", "exp": 1, "iss": "shop", "aud": "stampede"});
    let good = token(&claims());
    let (_, rest) = good.split_once('.').expect("a token");
    // {"alg":"none","typ":"JWT"}
    let none = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{}.", rest.split('.').next().expect("claims"));
    for (token, error) in [
        (none, TokenError::Malformed),
        (sign(Algorithm::HS256, &claims(), "other"), TokenError::Forged),
        (sign(Algorithm::HS512, &claims(), SECRET), TokenError::Algorithm),
        (token(&old), TokenError::Expired),
        (sign(Algorithm::HS256, &old, "other"), TokenError::Forged),
    ] {
        assert_eq!(verifier().verify(&token), Err(error), "{token}");
    }
}

/// Each token and its key are those of another library, PyJWT 2.15.
#[test]
fn a_token_of_each_algorithm_is_verified_by_its_pem_and_its_jwk_and_by_no_other_key() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("pyjwt.json")).expect("JSON");
    let text = |vector: &Value, name: &str| vector[name].as_str().expect("a text").to_owned();
    for vector in &vectors {
        for key in [text(vector, "pem"), vector["jwk"].to_string()] {
            let verifier = Verifier::new(&text(vector, "algorithm"), &key, "shop", "stampede").expect("a key");
            for token in vectors.iter().map(|other| text(other, "token")) {
                assert_eq!(verifier.verify(&token).is_ok(), token == text(vector, "token"), "{key}: {token}");
            }
            let confused = sign(Algorithm::HS256, &claims(), &key);
            assert_eq!(verifier.verify(&confused), Err(TokenError::Algorithm), "the public key as a shared secret");
        }
    }
}

const PRIVATE_PEM: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";

#[test]
fn a_weak_or_mistaken_key_is_refused() {
    let short = ["AA", "11qYAYKxCrfVS_7TyWQHOg7hcvPapPcHURo"]
        .map(|x| json!({"kty": "OKP", "crv": "Ed25519", "x": x}).to_string());
    let jwk = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    let set = format!(r#"{{"keys":[{jwk}]}}"#);
    let pem = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
    for (algorithm, key) in [
        ("none", SECRET),
        ("RS256", "not a pem"),
        ("EdDSA", &*short[0]),
        ("EdDSA", &*short[1]),
        ("HS256", "short"),
        // The text of a public key must not become a shared secret.
        ("HS256", jwk),
        ("HS256", &*format!(" {jwk}")),
        ("HS256", &*set),
        ("HS256", &*format!("[{jwk}]")),
        ("HS256", pem),
        ("EdDSA", PRIVATE_PEM),
    ] {
        assert!(Verifier::new(algorithm, key, "i", "a").is_err(), "{algorithm}: {key}");
    }
}

#[test]
fn two_shared_secrets_verify_while_one_replaces_the_other() {
    let new = "Zt5-new-new-9Qw7e2r4u6i8o0p1a3s5d7f";
    let verifier = Verifier::new("HS256", &format!("{new} {SECRET}"), "shop", "stampede").expect("strong secrets");
    let verify = |secret| verifier.verify(&sign(Algorithm::HS256, &claims(), secret)).map(drop);
    assert_eq!([new, SECRET, "other"].map(verify), [Ok(()), Ok(()), Err(TokenError::Forged)]);
    let old = json!({"sub": "ada", "exp": 1, "iss": "shop", "aud": "stampede"});
    assert_eq!(verifier.verify(&token(&old)), Err(TokenError::Expired));
    assert!(Verifier::new("HS256", &format!("{SECRET} short"), "shop", "stampede").is_err());
}

#[test]
fn a_token_is_verified_by_the_key_of_the_set_that_it_names() {
    // RFC 8037, appendix A: a key and its public part; and another public key.
    let (x, other) = ("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "GZ9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE");
    let signing_key = EncodingKey::from_ed_pem(PRIVATE_PEM.as_bytes()).expect("a key");
    let rotated = [(Some("new"), other), (Some("old"), x)];
    let nameless = [(None, other), (None, x)];
    let forged = Err(TokenError::Forged);
    for (keys, kid, expected) in [
        (&rotated[..], Some("old"), Ok(())),
        (&rotated, Some("new"), forged),
        (&rotated, Some("unknown"), forged),
        (&rotated, None, forged),
        (&rotated[1..], None, Ok(())),
        (&nameless, None, Ok(())),
        (&nameless, Some("a"), Ok(())),
    ] {
        let jwk = |(kid, x): &(Option<&str>, &str)| json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x});
        let set = json!({ "keys": keys.iter().map(jwk).collect::<Vec<_>>() }).to_string();
        let header = Header { kid: kid.map(str::to_owned), ..Header::new(Algorithm::EdDSA) };
        let token = encode(&header, &claims(), &signing_key).expect("a token");
        let verifier = Verifier::new("EdDSA", &set, "shop", "stampede").expect("keys");
        assert_eq!(verifier.verify(&token).map(drop), expected, "{kid:?} of {set}");
    }
    assert!(Verifier::new("EdDSA", r#"{"keys":[]}"#, "shop", "stampede").is_err());
}
