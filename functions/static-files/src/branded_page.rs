//! Puts the shop's name, logo, colours and texts into a page, so that the first thing a browser shows has them.

use domain::branding::{Branding, DEFAULT_NAME};
use maud::{PreEscaped, html};

/// The beginning of each reference to the default logo, up to the hash in its name.
const DEFAULT_LOGO: &str = "\"/assets/img/mark";

/// Returns the page with the shop's branding. The pages' modules read `#shop-texts`.
pub fn render(page: &str, branding: &Branding) -> String {
    let page = page.replace(DEFAULT_NAME, &html! { (branding.name) }.into_string());
    let page = match &branding.logo {
        Some(logo) => replace_logo(&page, &html! { (logo) }.into_string()),
        None => page,
    };
    let added = html! {
        @if let Some(style) = &branding.style { style { (PreEscaped(style)) } }
        @if let Some(json) = texts_json(branding) { script type="application/json" id="shop-texts" { (PreEscaped(json)) } }
    };
    page.replacen("</head>", &format!("{}</head>", added.into_string()), 1)
}

/// The texts; `<`, which could end the element, stands in strings only and is written as an escape there.
fn texts_json(branding: &Branding) -> Option<String> {
    let json = serde_json::to_string(&branding.texts).ok()?;
    (!branding.texts.is_empty()).then(|| json.replace('<', "\\u003c"))
}

fn replace_logo(page: &str, logo: &str) -> String {
    let mut parts = page.split(DEFAULT_LOGO);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |replaced, part| {
        let (_, after) = part.split_once('"').unwrap_or_default();
        format!("{replaced}\"{logo}\"{after}")
    })
}

#[cfg(test)]
mod tests {
    use domain::settings::Variables;

    use super::*;

    const PAGE: &str = "<head><title>Sale · Stampede</title><link href=\"/assets/img/mark.0123.svg\">\n</head>\
                        <img src=\"/assets/img/mark.0123.svg\" alt=\"\"><nav aria-label=\"Stampede\">";

    fn branding(set: &[(&str, &str)]) -> Branding {
        let value = |name: &str| set.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| *value);
        Branding::parse(&Variables(&|name| value(name).into())).expect("branding")
    }

    #[test]
    fn a_page_without_branding_is_unchanged() {
        assert_eq!(render(PAGE, &Branding::default()), PAGE);
    }

    #[test]
    fn values_are_text_wherever_they_stand() {
        let page = render(
            PAGE,
            &branding(&[
                ("shop_name", "\"><script>alert(1)</script>&"),
                ("shop_logo", "/a\"onerror=\"alert(1)"),
                ("shop_texts", r#"{"en": {"list.title": "</script><script>alert(1)<!--"}}"#),
            ]),
        );
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        assert_eq!(page.matches("&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;").count(), 2, "{page}");
        assert_eq!(page.matches("=\"/a&quot;onerror=&quot;alert(1)\"").count(), 2, "{page}");
        assert!(!page.contains("mark"), "{page}");
        let json = page.split_once("id=\"shop-texts\">").and_then(|(_, rest)| rest.split_once("</script>"));
        let texts: domain::branding::Texts = serde_json::from_str(json.expect("texts").0).expect("JSON");
        assert_eq!(texts["en"]["list.title"], "</script><script>alert(1)<!--");
    }
}
