//! A buyer's language, and texts in several.

use std::collections::BTreeMap;

use icu_locale::{LanguageIdentifier, Locale, LocaleCanonicalizer, LocaleExpander};
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

    /// Returns the tag of `tags` for this language, by RFC 4647's lookup with likely subtags: the same one, or the first
    /// with the same language, script and region (`zh-Hans` for `zh-CN`), else one with less in common. The client has the
    /// same rule.
    #[must_use]
    pub fn best_of<'a>(&self, tags: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
        let same = tags.clone().into_iter().find(|tag| tag.eq_ignore_ascii_case(&self.0));
        same.or_else(|| {
            let wanted = maximize(&self.0)?;
            let usual = maximize(&format!(
                "{}-{}",
                wanted.language,
                wanted.script.as_ref().map_or("", |script| script.as_str())
            ));
            let known: Vec<_> = tags.into_iter().filter_map(|tag| Some((tag, maximize(tag)?))).collect();
            let find = |fits: &dyn Fn(&LanguageIdentifier) -> bool| {
                known.iter().find(|(_, tag)| fits(tag)).map(|(tag, _)| *tag)
            };
            find(&|tag| *tag == wanted)
                .or_else(|| find(&|tag| Some(tag) == usual.as_ref()))
                .or_else(|| find(&|tag| (tag.language, tag.script) == (wanted.language, wanted.script)))
                .or_else(|| find(&|tag| tag.language == wanted.language))
        })
    }

    /// Returns the text in this language, or `text` if it is not translated.
    #[must_use]
    pub fn choose<'a>(&self, text: &'a str, translations: &'a Translations) -> &'a str {
        self.translation(translations).map_or(text, String::as_str)
    }

    /// Returns the text in this language; `None` if there is none.
    #[must_use]
    pub fn translation<'a>(&self, translations: &'a Translations) -> Option<&'a String> {
        let best = self.best_of(translations.keys().map(Self::as_str));
        translations.iter().find(|(tag, _)| Some(tag.as_str()) == best).map(|(_, translation)| translation)
    }
}

/// A tag's language, with the script and region that are likely for it (`zh-Hans-CN` for `zh`).
fn maximize(tag: &str) -> Option<LanguageIdentifier> {
    let mut locale = Locale::try_from_str(tag).ok()?;
    LocaleCanonicalizer::new_common().canonicalize(&mut locale);
    LocaleExpander::new_common().maximize(&mut locale.id);
    locale.id.variants.clear();
    Some(locale.id)
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
    fn a_text_is_chosen_as_the_client_chooses_it() {
        let vectors: Vec<(String, Vec<String>, Option<String>)> =
            serde_json::from_str(include_str!("../../../tests/languages.json")).expect("vectors");
        for (wanted, tags, best) in vectors {
            let language = Language::try_from(wanted.clone()).expect("a tag");
            assert_eq!(language.best_of(tags.iter().map(String::as_str)), best.as_deref(), "{wanted} of {tags:?}");
        }
        let language = |tag: &str| Language::try_from(tag.to_owned()).expect(tag);
        let translations = Translations::from([(language("zh-Hans"), "相机".to_owned())]);
        assert_eq!(language("zh-CN").choose("camera", &translations), "相机");
        assert_eq!(language("en").choose("camera", &translations), "camera");
    }
}
