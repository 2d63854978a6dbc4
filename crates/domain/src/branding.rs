//! The shop's own name, logo, colour and texts on the pages, from variables (G15).

use std::{collections::BTreeMap, fmt::Write as _};

use palette::{FromColor, Oklch, Srgb, color_difference::Wcag21RelativeContrast};

use crate::variables::{Fault, Variables};

/// The name in `static/` that [`Branding::name`] replaces.
pub const DEFAULT_NAME: &str = "Stampede";

const MAX_NAME: usize = 60;
const LANGUAGES: [&str; 2] = ["en", "zh"];

/// Text in the accent colour stands on these grounds of `static/assets/css/stampede.css`: `--ground` in light mode,
/// `--surface` in dark mode, each the one with less contrast.
const LIGHT_GROUND: Srgb<u8> = Srgb::new(0xf7, 0xf5, 0xf2);
const DARK_GROUND: Srgb<u8> = Srgb::new(0x1f, 0x1c, 0x1a);

/// Texts by language and key, as in `static/assets/js/words/`.
pub type Texts = BTreeMap<String, BTreeMap<String, String>>;

/// What a shop changed about the pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branding {
    /// The shop's name.
    pub name: String,
    /// A URL or path of a picture.
    pub logo: Option<String>,
    /// CSS that sets the accent colours of light and dark mode.
    pub style: Option<String>,
    /// Texts that replace those of the pages.
    pub texts: Texts,
}

impl Default for Branding {
    fn default() -> Self {
        Self { name: DEFAULT_NAME.to_owned(), logo: None, style: None, texts: Texts::new() }
    }
}

impl Branding {
    /// Reads the variables `shop_…`; each may be empty.
    pub fn parse(variables: &Variables) -> Result<Self, Fault> {
        let names = ["shop_name", "shop_logo", "shop_color", "shop_texts"];
        let [name, logo, color, texts] = names.map(|name| variables.trimmed(name));
        let mut branding = Self::default();
        if !name.is_empty() {
            if name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
                let reason = format!("is longer than {MAX_NAME} characters, or more than one line");
                return Err(Fault::new("shop_name", reason));
            }
            branding.name = name;
        }
        if !logo.is_empty() {
            let is_path = logo.starts_with('/') && !logo.starts_with("//");
            if !(is_path || logo.starts_with("https://")) || logo.contains(char::is_whitespace) {
                return Err(Fault::new("shop_logo", "is no https:// URL and no path"));
            }
            branding.logo = Some(logo);
        }
        if !color.is_empty() {
            let color = parse_color(&color).ok_or(Fault::new("shop_color", "is no colour such as #0a7d5c"))?;
            branding.style = Some(accent_style(color));
        }
        if !texts.is_empty() {
            branding.texts = parse_texts(&texts).map_err(|reason| Fault::new("shop_texts", reason))?;
        }
        Ok(branding)
    }
}

fn parse_texts(json: &str) -> Result<Texts, String> {
    let texts: Texts = serde_json::from_str(json)
        .map_err(|fault| format!("is no JSON such as {{\"en\": {{\"list.title\": \"Drops\"}}}}: {fault}"))?;
    match texts.keys().find(|language| !LANGUAGES.contains(&language.as_str())) {
        Some(unknown) => Err(format!("has the language {unknown}: use {}", LANGUAGES.join(" and "))),
        None => Ok(texts),
    }
}

fn parse_color(text: &str) -> Option<Srgb<u8>> {
    (text.starts_with('#') && text.is_ascii()).then(|| text.parse().ok()).flatten()
}

/// Returns the CSS of the accent colours: the shop's colour, made darker in light mode and lighter in dark mode as far
/// as text in it, and on it, needs for the contrast of WCAG 2.1 AA (4.5:1). `--accent-ink` is further from the accent
/// than the ground is.
fn accent_style(color: Srgb<u8>) -> String {
    let mut css = String::new();
    let mut add = |before: &str, [accent, strong]: [Srgb<u8>; 2], ink: &str, after: &str| {
        // Writing to a string cannot fail.
        let _ =
            write!(css, "{before}:root{{--accent:#{accent:x};--accent-ink:{ink};--accent-strong:#{strong:x}}}{after}");
    };
    add("", readable(color, LIGHT_GROUND, -1), "#fff", "");
    add("@media (prefers-color-scheme:dark){", readable(color, DARK_GROUND, 1), "#000", "}");
    css
}

/// Returns the colour, and a stronger one, after changing its lightness in the direction until it is readable.
fn readable(color: Srgb<u8>, ground: Srgb<u8>, direction: i8) -> [Srgb<u8>; 2] {
    /// How much the lightness changes from the accent to the stronger one.
    const STRONGER: u8 = 7;

    let original = Oklch::from_color(color.into_format::<f32>());
    let changed = |percent: u8| match percent {
        0 => color,
        _ => {
            let lightness = original.l + f32::from(direction) * f32::from(percent) / 100.0;
            let changed = Oklch { l: lightness.clamp(0.0, 1.0), ..original };
            Srgb::from_color(changed).into_format()
        }
    };
    let is_readable = |color: Srgb<u8>| color.into_format::<f32>().has_min_contrast_text(ground.into_format());
    // Black and white, at a change of 100 percent, are readable.
    let first = (0..=100).find(|percent| is_readable(changed(*percent))).unwrap_or(100);
    [changed(first), changed(first + STRONGER)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, value: &str) -> Result<Branding, Fault> {
        Branding::parse(&Variables(&|known| if known == name { value } else { "" }.into()))
    }

    fn accents(color: &str) -> Vec<Srgb<u8>> {
        let style = parse("shop_color", color).expect("branding").style.expect("style");
        let accents = style.split(['{', ';', '}']).filter_map(|rule| rule.split_once(':'));
        accents
            .filter(|(name, _)| ["--accent", "--accent-strong"].contains(name))
            .map(|(_, value)| value.parse().expect("colour"))
            .collect()
    }

    #[test]
    fn without_variables_the_pages_stay_as_they_are() {
        assert_eq!(Branding::parse(&Variables(&|_| " ".into())), Ok(Branding::default()));
    }

    #[test]
    fn each_variable_is_checked() {
        assert_eq!(parse("shop_name", "Kamera & Söhne").expect("branding").name, "Kamera & Söhne");
        let logo = parse("shop_logo", "https://shop.example/logo.svg?v=2").expect("branding").logo;
        assert_eq!(logo.as_deref(), Some("https://shop.example/logo.svg?v=2"));
        let texts = parse("shop_texts", r#"{"zh": {"list.title": "限时"}}"#).expect("branding").texts;
        assert_eq!(texts["zh"]["list.title"], "限时");
        let long = "x".repeat(61);
        for (name, wrong) in [
            ("shop_name", &*long),
            ("shop_name", "two\nlines"),
            ("shop_logo", "http://shop.example/logo.svg"),
            ("shop_logo", "//shop.example/logo.svg"),
            ("shop_logo", "javascript:alert(1)"),
            ("shop_logo", "/a b"),
            ("shop_color", "red"),
            ("shop_color", "0a7d5c"),
            ("shop_color", "#0a7d5"),
            ("shop_color", "#é1"),
            ("shop_color", "#000;}body{display:none"),
            ("shop_texts", "{"),
            ("shop_texts", r#"{"de": {}}"#),
            ("shop_texts", r#"{"en": {"list.title": 1}}"#),
        ] {
            assert_eq!(parse(name, wrong).map_err(|fault| fault.variable), Err(name), "{wrong:?}");
        }
    }

    #[test]
    fn a_readable_colour_is_kept() {
        assert_eq!(accents("#c7361f")[0], Srgb::new(0xc7, 0x36, 0x1f));
        assert_eq!(accents("#ffee00")[2], Srgb::new(0xff, 0xee, 0x00));
    }

    #[test]
    fn every_colour_becomes_readable_in_light_and_dark_mode() {
        let contrast = |one: Srgb<u8>, other: Srgb<u8>| one.into_format::<f32>().relative_contrast(other.into_format());
        let (black, white) = (Srgb::new(0, 0, 0), Srgb::new(255, 255, 255));
        for number in 0..6_u32.pow(3) {
            let [red, green, blue] = [number / 36, number / 6 % 6, number % 6].map(|level| level * 51);
            let color = format!("#{red:02x}{green:02x}{blue:02x}");
            let [light, light_strong, dark, dark_strong] = accents(&color)[..] else { panic!("four colours") };
            for (accent, ground, ink) in [
                (light, LIGHT_GROUND, white),
                (light_strong, LIGHT_GROUND, white),
                (dark, DARK_GROUND, black),
                (dark_strong, DARK_GROUND, black),
            ] {
                assert!(contrast(accent, ground) >= 4.5 && contrast(accent, ink) >= 4.5, "{color}: {accent:x}");
            }
        }
    }
}
