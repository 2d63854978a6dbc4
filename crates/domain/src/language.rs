//! A buyer's language.

use serde::{Deserialize, Serialize};

/// A language tag (BCP 47) such as `zh-CN`, or empty for an unknown language. Only its form is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Language(String);

impl Language {
    /// The tag.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the tag of `tags` for this language: the same one, or the first that is a beginning of it (`pt` for
    /// `pt-AO`). Letter case does not matter.
    #[must_use]
    pub fn best_of(&self, tags: &[&'static str]) -> Option<&'static str> {
        let find = |text: &str| tags.iter().copied().find(|tag| tag.eq_ignore_ascii_case(text));
        let primary = self.0.split('-').next().unwrap_or_default();
        find(&self.0).or_else(|| find(primary))
    }
}

impl TryFrom<String> for Language {
    type Error = &'static str;

    fn try_from(tag: String) -> Result<Self, Self::Error> {
        let is_subtag = |text: &str| (1..=8).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric());
        let is_tag = tag.is_empty() || (tag.len() <= 35 && tag.split('-').all(is_subtag));
        if is_tag { Ok(Self(tag)) } else { Err("must be a language tag such as en or zh-CN") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_a_tag_or_empty() {
        for tag in ["", "en", "zh-CN", "zh-Hant-TW", "de-CH-1996"] {
            assert!(Language::try_from(tag.to_owned()).is_ok(), "{tag}");
        }
        for text in ["en_US", "-", "en-", "a b", "abcdefghi", "en-\u{e9}", &"en-".repeat(20)] {
            assert!(Language::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn the_same_tag_is_best_and_the_primary_language_is_next() {
        let tags = ["en", "pt", "pt-BR", "zh"];
        for (tag, best) in [("pt-br", Some("pt-BR")), ("pt-AO", Some("pt")), ("zh-Hans-CN", Some("zh")), ("tlh", None)]
        {
            assert_eq!(Language::try_from(tag.to_owned()).expect(tag).best_of(&tags), best, "{tag}");
        }
        assert_eq!(Language::default().best_of(&tags), None);
    }
}
