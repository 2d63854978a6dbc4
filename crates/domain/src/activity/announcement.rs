//! A word from the shop to everybody who looks at an activity.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{LANGUAGES_RULE, MAX_LANGUAGES, PLAIN_TEXT, are_languages};
use crate::{http::problem::FieldError, language::Translations};

const MAX_CHARS: usize = 280;

/// A plain text in one or several languages, by language tag; empty for none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, transform = Announcement::limit_schema)]
pub struct Announcement(#[schemars(with = "BTreeMap<String, String>")] Translations);

impl Announcement {
    fn limit_schema(schema: &mut Schema) {
        let text = json!({ "type": "string", "minLength": 1, "maxLength": MAX_CHARS, "pattern": PLAIN_TEXT });
        schema.insert("maxProperties".to_owned(), MAX_LANGUAGES.into());
        schema.insert("additionalProperties".to_owned(), text);
        schema.insert("examples".to_owned(), json!([{ "en": "Doors open at eight.", "zh": "八点开门。" }]));
    }

    /// The text that the stores have, which is empty for none.
    #[must_use]
    pub fn to_text(&self) -> String {
        if self.is_empty() { String::new() } else { serde_json::to_string(self).unwrap_or_default() }
    }

    /// Reads a text of [`Announcement::to_text`].
    ///
    /// # Errors
    /// If it is none.
    pub fn from_text(text: &str) -> serde_json::Result<Self> {
        if text.is_empty() { Ok(Self::default()) } else { serde_json::from_str(text) }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns one error for each violated rule; empty if the announcement is valid.
    #[must_use]
    pub fn validate(&self) -> Vec<FieldError> {
        let is_text = |text: &str| (1..=MAX_CHARS).contains(&text.chars().count()) && !text.contains(char::is_control);
        let wrong = self.0.iter().filter(|(_, text)| !is_text(text));
        let rule = "must be 1 to 280 characters without control characters";
        let errors = wrong.map(|(tag, _)| FieldError::new(format!("/{}", tag.as_str()), rule));
        errors.chain((!are_languages(&self.0)).then(|| FieldError::new("", LANGUAGES_RULE))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body;

    #[test]
    fn an_announcement_is_plain_and_short_in_each_language() {
        let pointers = |value: serde_json::Value| -> Vec<String> {
            let announcement: Announcement = body::parse(value.to_string().as_bytes()).expect("an announcement");
            announcement.validate().into_iter().map(|error| error.pointer).collect()
        };
        assert_eq!(pointers(json!({})), [""; 0]);
        assert_eq!(pointers(json!({ "en": "x", "zh": "八".repeat(280) })), [""; 0]);
        assert_eq!(pointers(json!({ "en": "", "zh": "八".repeat(281), "de": "a\nb" })), ["/de", "/en", "/zh"]);
        assert_eq!(pointers(json!({ "": "x" })), [""]);
    }

    #[test]
    fn the_stores_have_an_announcement_as_text() {
        for value in [json!({}), json!({ "en": "x", "zh": "八" })] {
            let announcement: Announcement = body::parse(value.to_string().as_bytes()).expect("an announcement");
            assert_eq!(Announcement::from_text(&announcement.to_text()).ok(), Some(announcement));
        }
        assert_eq!(Announcement::default().to_text(), "");
        assert!(Announcement::from_text("[]").is_err());
    }
}
