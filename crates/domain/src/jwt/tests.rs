use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";
const FAR_FUTURE: i64 = 4_000_000_000;

fn verifier() -> Verifier {
    Verifier::new("HS256", SECRET, "shop", "stampede").expect("a strong secret")
}

fn token(claims: &Value) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(SECRET.as_bytes())).expect("a token")
}

#[test]
fn a_valid_token_yields_its_claims() {
    let claims = json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede", "level": 2, "member": true});
    let claims = verifier().verify(&token(&claims)).expect("verified");
    assert_eq!((claims.sub.as_str(), claims.level, claims.member), ("ada", 2, true));
    assert!(claims.groups.is_empty());
}

/// A token with this claim, a JSON text, or without it.
fn token_with(name: &str, value: Option<&str>) -> String {
    let mut claims = HashMap::from([("sub", "\"ada\""), ("exp", "4e9"), ("iss", "\"shop\""), ("aud", "\"stampede\"")]);
    match value {
        Some(value) => claims.insert(name, value),
        None => claims.remove(name),
    };
    let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
    let claims: HashMap<_, _> = claims.into_iter().map(|(name, value)| (name, raw(value))).collect();
    encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(SECRET.as_bytes())).expect("a token")
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

#[test]
fn a_token_whose_user_operators_cannot_name_is_refused() {
    let user_of = |user: &str| {
        let claims = json!({"sub": user, "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede"});
        verifier().verify(&token(&claims)).map(|claims| claims.sub)
    };
    let like_another = [
        " ",
        " a",
        "a ",
        "a  b",
        "a\u{a0}",
        "a\u{a0}b",
        "\u{3000}a",
        "a\u{2003}b",
        "a\u{2028}b",
        "a\u{feff}",
        "a\u{ad}b",
        "a\u{200b}b",
        "a\u{200d}b",
        "a\u{202e}b",
        "\u{2066}a\u{2069}",
        "a\u{2060}",
        "a\u{3164}",
        "a\u{fe0f}",
        "a\u{e0041}",
        "a\u{2800}",
        "a\u{fffb}",
        "a\u{1d159}",
        "a\u{16fe4}",
    ];
    for user in like_another {
        assert_eq!(user_of(user), Err(TokenError::Unnameable), "{user:?}");
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
fn an_old_token_with_a_valid_signature_has_expired() {
    let old = json!({"sub": "ada", "exp": 1, "iss": "shop", "aud": "stampede"});
    assert_eq!(verifier().verify(&token(&old)), Err(TokenError::Expired));
    let other = encode(&Header::new(Algorithm::HS256), &old, &EncodingKey::from_secret(b"other")).expect("a token");
    assert_eq!(verifier().verify(&other), Err(TokenError::Forged));
}

#[test]
fn another_algorithm_or_key_is_refused() {
    let claims = json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede"});
    let good = token(&claims);
    let (_, rest) = good.split_once('.').expect("a token");
    // {"alg":"none","typ":"JWT"}
    let none = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{}.", rest.split('.').next().expect("claims"));
    assert_eq!(verifier().verify(&none), Err(TokenError::Malformed));
    let other = encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(b"other")).expect("a token");
    assert_eq!(verifier().verify(&other), Err(TokenError::Forged));
    let larger = encode(&Header::new(Algorithm::HS512), &claims, &EncodingKey::from_secret(SECRET.as_bytes()));
    assert_eq!(verifier().verify(&larger.expect("a token")), Err(TokenError::Algorithm));
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
            let claims = json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede"});
            let confused = encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(key.as_bytes()))
                .expect("a token");
            assert_eq!(verifier.verify(&confused), Err(TokenError::Algorithm), "the public key as a shared secret");
        }
    }
}

#[test]
fn a_weak_or_mistaken_key_is_refused() {
    assert!(Verifier::new("HS256", "short", "i", "a").is_err());
    assert!(Verifier::new("RS256", "not a pem", "i", "a").is_err());
    for x in ["AA", "11qYAYKxCrfVS_7TyWQHOg7hcvPapPcHURo"] {
        let short = json!({"kty": "OKP", "crv": "Ed25519", "x": x}).to_string();
        assert!(Verifier::new("EdDSA", &short, "i", "a").is_err(), "{short}");
    }
    assert!(Verifier::new("none", SECRET, "i", "a").is_err());
}

/// The text of a public key must not become a shared secret.
#[test]
fn hs256_refuses_a_key_that_others_may_know() {
    let jwk = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    let set = format!(r#"{{"keys":[{jwk}]}}"#);
    let pem = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
    for key in [jwk, &format!(" {jwk}"), &set, &format!("[{jwk}]"), pem] {
        assert!(Verifier::new("HS256", key, "i", "a").is_err(), "{key}");
    }
}

#[test]
fn two_shared_secrets_verify_while_one_replaces_the_other() {
    let claims = json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede"});
    let both = format!("Zt5-new-new-9Qw7e2r4u6i8o0p1a3s5d7f {SECRET}");
    let verifier = Verifier::new("HS256", &both, "shop", "stampede").expect("strong secrets");
    assert!(verifier.verify(&token(&claims)).is_ok());
    let old = json!({"sub": "ada", "exp": 1, "iss": "shop", "aud": "stampede"});
    assert_eq!(verifier.verify(&token(&old)), Err(TokenError::Expired));
    let other = encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(b"other"));
    assert_eq!(verifier.verify(&other.expect("a token")), Err(TokenError::Forged));
    assert!(Verifier::new("HS256", &format!("{SECRET} short"), "shop", "stampede").is_err());
}

#[test]
fn a_token_is_verified_by_the_key_of_the_set_that_it_names() {
    // RFC 8037, appendix A: a key and its public part; and another public key.
    let (x, other) = ("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "GZ9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE");
    let named = |kid: Option<&str>, x: &str| json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x});
    let jwk = |kid: &str, x: &str| named(Some(kid), x);
    let set = |first: &Value, second: &Value| json!({ "keys": [first, second] }).to_string();
    let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
    let signing_key = EncodingKey::from_ed_pem(pem.as_bytes()).expect("a key");
    let claims = json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede"});
    let sign = |kid: Option<&str>| {
        let header = Header { kid: kid.map(str::to_owned), ..Header::new(Algorithm::EdDSA) };
        encode(&header, &claims, &signing_key).expect("a token")
    };
    let verifier = |keys: &str| Verifier::new("EdDSA", keys, "shop", "stampede").expect("keys");
    let both = verifier(&set(&jwk("new", other), &jwk("old", x)));
    assert!(both.verify(&sign(Some("old"))).is_ok());
    assert_eq!(both.verify(&sign(None)), Err(TokenError::Forged), "it may be any of them");
    assert!(verifier(&jwk("only", x).to_string()).verify(&sign(None)).is_ok());
    let nameless = verifier(&set(&named(None, other), &named(None, x)));
    assert!(nameless.verify(&sign(None)).is_ok() && nameless.verify(&sign(Some("a"))).is_ok());
    assert_eq!(both.verify(&sign(Some("new"))), Err(TokenError::Forged));
    assert_eq!(both.verify(&sign(Some("unknown"))), Err(TokenError::Forged));
    assert!(Verifier::new("EdDSA", r#"{"keys":[]}"#, "shop", "stampede").is_err());
}
