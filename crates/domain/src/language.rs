//! A buyer's language, and texts in several.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A text in other languages than its own.
pub type Translations = BTreeMap<Language, String>;

/// A language tag (BCP 47) such as `zh-CN`, or empty for an unknown language. Only its form is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    pub fn best_of<'a>(&self, tags: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
        let find = |text: &str| tags.clone().into_iter().find(|tag| tag.eq_ignore_ascii_case(text));
        let primary = self.0.split('-').next().unwrap_or_default();
        find(&self.0).or_else(|| find(primary))
    }

    /// Returns the text in this language, or `text` if it is not translated.
    #[must_use]
    pub fn choose<'a>(&self, text: &'a str, translations: &'a Translations) -> &'a str {
        let best = self.best_of(translations.keys().map(Self::as_str));
        translations.iter().find(|(tag, _)| Some(tag.as_str()) == best).map_or(text, |(_, translation)| translation)
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
        let language = |tag: &str| Language::try_from(tag.to_owned()).expect(tag);
        let translations = Translations::from([(language("zh"), "相机".to_owned())]);
        assert_eq!(language("zh-CN").choose("camera", &translations), "相机");
        assert_eq!(language("en").choose("camera", &translations), "camera");
        for (tag, best) in [("pt-br", Some("pt-BR")), ("pt-AO", Some("pt")), ("zh-Hans-CN", Some("zh")), ("tlh", None)]
        {
            assert_eq!(language(tag).best_of(tags), best, "{tag}");
        }
        assert_eq!(Language::default().best_of(tags), None);
    }
}
