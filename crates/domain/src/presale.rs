//! Presale codes: who has one may take part (B7).

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use ulid::Ulid;

use crate::http::problem::FieldError;

/// Most codes of an activity.
pub const MAX_CODES: i64 = 20_000;

/// Most users of a code.
pub const MAX_USERS: i64 = 1_000_000;

const USERS_RULE: &str = "must be 1 to 1,000,000";

/// A presale code: 6 to 40 capital letters and digits. Spaces, hyphens and lower case are accepted where one is typed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PresaleCode(String);

impl PresaleCode {
    /// Reads a code as a person types it; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let code: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).map(|c| c.to_ascii_uppercase()).collect();
        let is_code = (6..=40).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_alphanumeric());
        is_code.then_some(Self(code))
    }

    /// Makes a code of 50 of these random bits: ten characters without I, L, O and U.
    #[must_use]
    pub fn generate(random: u128) -> Self {
        Self(Ulid::from(random).to_string().split_off(16))
    }

    /// The code as it is stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PresaleCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// How many codes are to be made.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct MakeCodes {
    /// How many; an activity has at most 20,000.
    #[schemars(range(min = 1, max = 1_000))]
    pub count: i64,
    /// How many users get tickets with each.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = MAX_USERS))]
    pub max_users: i64,
}

fn one() -> i64 {
    1
}

impl MakeCodes {
    /// Returns one error for each violated rule.
    #[must_use]
    pub fn validate(&self) -> Vec<FieldError> {
        let rules = [
            ((1..=1_000).contains(&self.count), "/count", "must be 1 to 1,000"),
            ((1..=MAX_USERS).contains(&self.max_users), "/max_users", USERS_RULE),
        ];
        rules.into_iter().filter(|(ok, ..)| !ok).map(|(_, at, rule)| FieldError::new(at, rule)).collect()
    }
}

/// Reads the codes of a CSV file: lines of a code and the number of its users, which is 1 if it is missing; the first line may
/// have their names, `code` and `max_users`.
///
/// # Errors
/// One error for each wrong line.
pub fn read_csv(text: &[u8]) -> Result<Vec<(PresaleCode, i64)>, Vec<FieldError>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(text);
    let (mut codes, mut errors) = (Vec::new(), Vec::new());
    for (index, row) in reader.records().enumerate() {
        let row = row.unwrap_or_default();
        let fields: Vec<&str> = row.iter().collect();
        let (code, users) = match fields[..] {
            ["code", ..] if index == 0 => continue,
            [code] => (PresaleCode::parse(code), Ok(1)),
            [code, users, ..] => (PresaleCode::parse(code), users.parse()),
            [] => (None, Ok(1)),
        };
        match (code, users) {
            (Some(code), Ok(users)) if (1..=MAX_USERS).contains(&users) => codes.push((code, users)),
            (None, _) => errors.push(FieldError::new(format!("/{index}/code"), "must be 6 to 40 letters and digits")),
            _ => errors.push(FieldError::new(format!("/{index}/max_users"), USERS_RULE)),
        }
    }
    if codes.is_empty() && errors.is_empty() {
        errors.push(FieldError::new("", "must have a line for each code: code,max_users"));
    }
    if errors.is_empty() { Ok(codes) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_people_type_it() {
        for (text, expected) in [
            ("K7Q2M-9XWDA", Some("K7Q2M9XWDA")),
            (" k7q2m 9xwda", Some("K7Q2M9XWDA")),
            ("SUMMER", Some("SUMMER")),
            ("12345", None),
            ("", None),
            ("sommer_2026", None),
            ("\u{e4}bcdefg", None),
        ] {
            assert_eq!(PresaleCode::parse(text).as_ref().map(PresaleCode::as_str), expected, "{text}");
        }
        assert!(PresaleCode::parse(&"a".repeat(41)).is_none());
    }

    #[test]
    fn codes_that_are_made_differ_in_fifty_bits_and_are_codes() {
        for random in [0, 1, u128::MAX, 0x1234_5678_9abc_def0_1234_5678_9abc_def0] {
            let code = PresaleCode::generate(random);
            assert_eq!(code.as_str().len(), 10);
            assert_eq!(PresaleCode::parse(code.as_str()), Some(code));
        }
        assert_ne!(PresaleCode::generate(0), PresaleCode::generate(1 << 49));
    }

    #[test]
    fn a_file_has_a_code_a_line_and_each_wrong_line_is_told() {
        let read = |text: &str| {
            read_csv(text.as_bytes())
                .map(|codes| codes.iter().map(|(code, users)| format!("{code} {users}")).collect::<Vec<_>>().join(","))
                .map_err(|errors| errors.into_iter().map(|error| error.pointer).collect::<Vec<_>>().join(","))
        };
        assert_eq!(read("code,max_users\r\nabc-def,3\r\n\"GHIJKL\",1,0\r\n"), Ok("ABCDEF 3,GHIJKL 1".to_owned()));
        assert_eq!(read("abcdef\n\nsecond1"), Ok("ABCDEF 1,SECOND1 1".to_owned()));
        assert_eq!(read("abc\nabcdef,0\nabcdef,many"), Err("/0/code,/1/max_users,/2/max_users".to_owned()));
        assert_eq!(read(""), Err(String::new()));
    }
}
