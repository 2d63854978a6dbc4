//! Validates component ids, store labels and variable names in a manifest.

/// Checks a component id: words of letters and digits, separated by `-`.
///
/// # Errors
/// A message that describes the invalid part.
pub fn check_kebab(id: &str) -> Result<(), String> {
    check(id, '-', '_')
}

/// Checks the label of a store: words separated either by `-` or by `_`.
///
/// # Errors
/// A message that describes the invalid part.
pub fn check_label(label: &str) -> Result<(), String> {
    check_kebab(label).or_else(|_| check(label, '_', '-'))
}

/// Checks the name of a variable: lower-case words, separated by `_`.
///
/// # Errors
/// A message that describes the invalid part.
pub fn check_variable(name: &str) -> Result<(), String> {
    check(name, '_', '-')?;
    if name.chars().any(|c| c.is_ascii_uppercase()) {
        return Err(format!("{name:?} must be all lowercase"));
    }
    Ok(())
}

fn check(id: &str, delimiter: char, wrong: char) -> Result<(), String> {
    if id.is_empty() {
        return Err("a name must not be empty".into());
    }
    if id.contains(wrong) {
        return Err(format!("in {id:?} words must be separated with {delimiter:?}, not {wrong:?}"));
    }
    for word in id.split(delimiter) {
        let Some(first) = word.chars().next() else {
            return Err(format!("in {id:?} a word between {delimiter:?} is empty"));
        };
        if !first.is_ascii_alphabetic() {
            return Err(format!("in {id:?} words must start with a letter, not with {first:?}"));
        }
        let upper = first.is_ascii_uppercase();
        for c in word.chars() {
            if !c.is_ascii_alphanumeric() {
                return Err(format!("{id:?} may only hold letters, digits and {delimiter:?}, not {c:?}"));
            }
            if c.is_ascii_alphabetic() && c.is_ascii_uppercase() != upper {
                return Err(format!("in {id:?} words must be all lowercase or all UPPERCASE"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn component_ids_are_kebab_case() {
        for good in ["a", "order-writer", "API-v2"] {
            check_kebab(good).unwrap();
        }
        for bad in ["", "order_writer", "-a", "a--b", "2a", "aB", "a b"] {
            assert!(check_kebab(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn labels_are_kebab_or_snake_case_but_not_both() {
        check_label("order-book").unwrap();
        check_label("order_book").unwrap();
        assert!(check_label("order-book_2").is_err());
    }

    #[test]
    fn variables_are_lower_snake_case() {
        check_variable("redis_url").unwrap();
        for bad in ["redis-url", "REDIS", "_a"] {
            assert!(check_variable(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
