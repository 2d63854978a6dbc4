//! Parses and renders strings that contain `{{ variable }}`.

use std::fmt;

use super::Error;

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Literal text.
    Literal(String),
    /// The name of a variable.
    Variable(String),
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// [`Error::InvalidTemplate`] if a `{{` has no `}}`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (literal, expression) = rest.split_at(rest.find("{{").unwrap_or(rest.len()));
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            }
            let Some(expression) = expression.strip_prefix("{{") else { break };
            let Some((name, after)) = expression.split_once("}}") else {
                return Err(Error::InvalidTemplate("unmatched '{{' in template".into()));
            };
            parts.push(Part::Variable(name.trim().to_owned()));
            rest = after;
        }
        Ok(Self(parts))
    }

    /// The pieces, in order.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Returns whether it contains no variable.
    pub fn is_literal(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Literal(_)))
    }

    /// Renders the template. `value` returns the value of each variable.
    ///
    /// # Errors
    /// The first error that `value` returns.
    pub fn render<E>(&self, mut value: impl FnMut(&str) -> Result<String, E>) -> Result<String, E> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Variable(name) => text.push_str(&value(name)?),
            }
        }
        Ok(text)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Literal(literal) => f.write_str(literal),
            Part::Variable(name) => write!(f, "{{{{ {name} }}}}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str) -> Result<String, Error> {
        Template::parse(text)?.render(|name| Ok(name.to_uppercase()))
    }

    #[test]
    fn variables_are_replaced_at_any_position() {
        assert_eq!(render("").unwrap(), "");
        assert_eq!(render("plain { text }").unwrap(), "plain { text }");
        assert_eq!(render("a-{{ b }}-c").unwrap(), "a-B-c");
        assert_eq!(render("{{a}}{{ b }}").unwrap(), "AB");
    }

    #[test]
    fn an_unmatched_opening_brace_pair_is_refused() {
        assert!(matches!(render("{{ a }} {{ b"), Err(Error::InvalidTemplate(_))));
    }

    #[test]
    fn only_text_without_variables_is_literal() {
        assert!(Template::parse("a}}").unwrap().is_literal());
        assert!(!Template::parse("{{ a }}").unwrap().is_literal());
    }
}
