//! Validated identifiers: newtypes whose values always fit their rules.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};
use ulid::Ulid;

/// An identifier breaks its rule; the message states the rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidId(&'static str);

/// Converts text to a type by its `parse`, and back by its `Display`, as Serde does.
macro_rules! text_conversions {
    ($name:ident, $error:ty) => {
        impl TryFrom<String> for $name {
            type Error = $error;
            fn try_from(text: String) -> Result<Self, $error> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    };
}
pub(crate) use text_conversions;

/// Declares a newtype over `String` that is created by `parse` only.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $rule:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Validates an identifier.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) { Ok(Self(text.to_owned())) } else { Err(InvalidId($rule)) }
            }

            /// The identifier as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        text_conversions!($name, InvalidId);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// An activity's id: 1 to 40 of `a-z`, `0-9` and `-`, starting with a letter or digit.
    ActivityId,
    "an activity id is 1 to 40 characters of a-z, 0-9 and '-', and starts with a letter or digit",
    |text| {
        (1..=40).contains(&text.len())
            && !text.starts_with('-')
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    }
);

text_id!(
    /// A SKU's id: 1 to 40 of letters, digits, `-` and `_`, starting with a letter or digit.
    SkuId,
    "a SKU is 1 to 40 characters of A-Z, a-z, 0-9, '-' and '_', and starts with a letter or digit",
    |text| {
        (1..=40).contains(&text.len())
            && text.as_bytes()[0].is_ascii_alphanumeric()
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    }
);

text_id!(
    /// A user's id, as issued by the issuer: 1 to 96 bytes without control characters.
    UserId,
    "a user id is 1 to 96 bytes without control characters",
    |text| (1..=96).contains(&text.len()) && !text.chars().any(char::is_control)
);

impl UserId {
    /// Whether operators can ban this user and no other one by the name that they see: white space in it is single spaces
    /// between other characters, and every character is visible. Users in the ledger may have other names.
    #[must_use]
    pub fn is_nameable(&self) -> bool {
        self.0.split(' ').all(|word| !word.is_empty() && word.chars().all(is_visible))
    }
}

fn is_visible(character: char) -> bool {
    character.is_ascii_graphic()
        || !(character.is_ascii()
            || character.is_whitespace()
            || INVISIBLE.iter().any(|&(first, last)| (first..=last).contains(&character)))
}

/// Unicode's `Default_Ignorable_Code_Point`, the braille blank, the controls of annotations, and signs that most fonts draw
/// as nothing: joiners and fillers of scripts, the controls of hieroglyphs, the null notehead.
const INVISIBLE: [(char, char); 22] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1107f}', '\u{1107f}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{16fe4}', '\u{16fe4}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d159}', '\u{1d159}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// What buyers see of an order's number, `XXXX-XXXX`: its last eight characters. Orders may share one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortCode(String);

impl ShortCode {
    /// Parses a code as a buyer types it: in any case, with or without the hyphen, and with the letters that Crockford's
    /// base 32 takes for digits.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let digits =
            text.chars().filter(|char| !matches!(char, '-' | ' ')).map(|char| match char.to_ascii_uppercase() {
                'I' | 'L' => '1',
                'O' => '0',
                other => other,
            });
        let code: String = digits.collect();
        let is_digit = |byte: u8| byte.is_ascii_alphanumeric() && byte != b'U';
        if code.len() == 8 && code.bytes().all(is_digit) {
            return Ok(Self(code));
        }
        Err(InvalidId("a code is the last eight characters of an order's number, such as 6N0K-1R8W"))
    }

    /// The end of the order's number.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An order number, `<activity>.<ULID>`. It contains the activity, so every Redis key of an order can be computed from
/// it.
///
/// The ULID is that of the order's ticket, so a ticket makes at most one order (I7).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OrderNo {
    activity: ActivityId,
    ulid: Ulid,
}

impl OrderNo {
    /// The number of the order that the ticket `ulid` of an activity makes.
    #[must_use]
    pub fn new(activity: ActivityId, ulid: Ulid) -> Self {
        Self { activity, ulid }
    }

    /// Parses `<activity>.<ULID>`.
    ///
    /// # Errors
    /// [`InvalidId`] for any other format, including a lower-case ULID: an order number has exactly one spelling.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        const RULE: InvalidId = InvalidId("an order number is <activity>.<ULID>");
        let (activity, ulid) = text.split_once('.').ok_or(RULE)?;
        let activity = ActivityId::parse(activity).map_err(|_| RULE)?;
        let parsed = Ulid::from_string(ulid).map_err(|_| RULE)?;
        if parsed.to_string() != ulid {
            return Err(RULE);
        }
        Ok(Self { activity, ulid: parsed })
    }

    /// The order's activity.
    #[must_use]
    pub fn activity(&self) -> &ActivityId {
        &self.activity
    }

    /// The ULID, which is unique among all orders.
    #[must_use]
    pub fn ulid(&self) -> Ulid {
        self.ulid
    }
}

text_conversions!(OrderNo, InvalidId);

/// The order of their texts, which is the ledger's: an activity's id may continue that of another.
impl Ord for OrderNo {
    fn cmp(&self, other: &Self) -> Ordering {
        let activity = |order_no: &Self| [order_no.activity.as_str(), "."].concat();
        activity(self).cmp(&activity(other)).then(self.ulid.cmp(&other.ulid))
    }
}

impl PartialOrd for OrderNo {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for OrderNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.activity, self.ulid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_one_spelling<T: TryFrom<String> + ToString>(valid: &str, wrong: &[&str]) {
        let read = |text: &str| T::try_from(text.to_owned()).ok().map(|id| id.to_string());
        assert_eq!(read(valid).as_deref(), Some(valid));
        for wrong in wrong {
            assert_eq!(read(wrong), None, "{wrong:?} was accepted");
        }
    }

    #[test]
    fn order_numbers_are_sorted_as_their_texts() {
        let numbers = ["sale-2", "sale", "sale1"].map(|activity| {
            let activity = ActivityId::parse(activity).expect("an id");
            [2, 1].map(|ulid| OrderNo::new(activity.clone(), Ulid(ulid)))
        });
        let mut numbers = numbers.concat();
        let mut texts: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        numbers.sort();
        texts.sort();
        assert_eq!(numbers.iter().map(ToString::to_string).collect::<Vec<_>>(), texts);
    }

    #[test]
    fn an_identifier_has_one_spelling() {
        let ulid = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let wrong = ["demo", "demo.", "demo.x", &format!("demo.{}", ulid.to_lowercase()), &format!(".{ulid}")];
        assert_one_spelling::<OrderNo>(&format!("demo.{ulid}"), &wrong);
        let wrong = ["", "-a", "Spring", "a.b", "a b", "a{b}", "ä", &"a".repeat(41)];
        assert_one_spelling::<ActivityId>("spring-sale-2026", &wrong);
        let wrong = ["", "_a", "a\n", "a\u{0}", "a:b", "a.b", &"a".repeat(10_000)];
        assert_one_spelling::<SkuId>("Phone_Black-128", &wrong);
    }
}
