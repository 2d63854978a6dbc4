//! Resolves application variables, and the component variables that refer to them.

mod providers;
mod template;

use std::collections::HashMap;

use indexmap::IndexMap;

pub use self::{
    providers::{Dotenv, Provider},
    template::{Part, Template},
};

/// Why a variable has no value. The guest sees these messages, so they are the same as Spin's.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is malformed.
    #[error("invalid variable name: {0}")]
    InvalidName(String),
    /// The template cannot be parsed, or refers to an unknown variable.
    #[error("invalid variable template: {0}")]
    InvalidTemplate(String),
    /// No provider has a value, or one failed.
    #[error("provider error: {0:?}")]
    Provider(anyhow::Error),
    /// The component has no such variable.
    #[error("undefined variable: {0}")]
    Undefined(String),
}

/// The variables of an application, and the providers of their values.
#[derive(Debug)]
pub struct Variables {
    /// Names and defaults. A variable without a default is required.
    defaults: IndexMap<String, Option<String>>,
    components: HashMap<String, IndexMap<String, Template>>,
    providers: Vec<Provider>,
}

impl Variables {
    /// Creates the variables from their defaults.
    ///
    /// # Errors
    /// [`Error::InvalidName`] if Spin would refuse a name.
    pub fn new(defaults: IndexMap<String, Option<String>>) -> Result<Self, Error> {
        defaults.keys().try_for_each(|name| check_name(name))?;
        Ok(Self { defaults, components: HashMap::new(), providers: Vec::new() })
    }

    /// Adds the variables of a component.
    ///
    /// # Errors
    /// [`Error::InvalidName`] for a malformed name, [`Error::InvalidTemplate`] for a malformed template or one
    /// that refers to an unknown variable.
    pub fn add_component(&mut self, component: &str, variables: &IndexMap<String, String>) -> Result<(), Error> {
        let templates = variables
            .iter()
            .map(|(name, text)| {
                check_name(name)?;
                let template = Template::parse(text)?;
                for part in template.parts() {
                    if let Part::Variable(unknown) = part
                        && !self.defaults.contains_key(unknown)
                    {
                        return Err(Error::InvalidTemplate(format!("unknown variable {unknown:?}")));
                    }
                }
                Ok((name.clone(), template))
            })
            .collect::<Result<_, _>>()?;
        self.components.insert(component.to_owned(), templates);
        Ok(())
    }

    /// Adds a provider. Providers that were added earlier take precedence.
    pub fn add_provider(&mut self, provider: Provider) {
        self.providers.push(provider);
    }

    /// Checks that every required variable has a value.
    ///
    /// # Errors
    /// An error that names every variable without a value.
    pub fn ensure_required(&self) -> anyhow::Result<()> {
        let missing: Vec<&str> = self
            .defaults
            .iter()
            .filter(|(name, default)| {
                default.is_none() && !self.providers.iter().any(|p| matches!(p.get(name), Ok(Some(_))))
            })
            .map(|(name, _)| name.as_str())
            .collect();
        anyhow::ensure!(
            missing.is_empty(),
            "no provider resolved required variable(s): {missing:?}; pass each with `--variable {}=…` \
             or in the environment as SPIN_VARIABLE_{}",
            missing[0],
            missing[0].to_uppercase()
        );
        Ok(())
    }

    /// Returns the value of a component's variable.
    ///
    /// # Errors
    /// As described at the variants of [`Error`].
    pub fn component_value(&self, component: &str, name: &str) -> Result<String, Error> {
        check_name(name)?;
        let templates = self
            .components
            .get(component)
            .ok_or_else(|| Error::Undefined(format!("no variable for component {component:?}")))?;
        let template =
            templates.get(name).ok_or_else(|| Error::Undefined(format!("no variable for {component:?}.{name:?}")))?;
        self.render(template)
    }

    /// Renders a template with the values of the application's variables.
    ///
    /// # Errors
    /// As described at the variants of [`Error`].
    pub fn render(&self, template: &Template) -> Result<String, Error> {
        template.render(|name| self.value(name))
    }

    /// Renders a template with the defaults only, or returns `None` if one of its variables has no default.
    pub fn render_defaults(&self, template: &Template) -> Option<String> {
        template.render(|name| self.defaults.get(name).cloned().flatten().ok_or(())).ok()
    }

    fn value(&self, name: &str) -> Result<String, Error> {
        for provider in &self.providers {
            if let Some(value) = provider.get(name).map_err(Error::Provider)? {
                return Ok(value);
            }
        }
        match self.defaults.get(name) {
            None => Err(Error::InvalidName(name.to_owned())),
            Some(Some(default)) => Ok(default.clone()),
            Some(None) => Err(Error::Provider(anyhow::anyhow!("no provider resolved required variable {name:?}"))),
        }
    }
}

/// Checks a name by Spin's rules: lower-case letters, digits and single underscores between them.
fn check_name(name: &str) -> Result<(), Error> {
    let reason = if name.is_empty() {
        "must not be empty".to_owned()
    } else if let Some(invalid) = name.chars().find(|c| !(c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '_')) {
        format!(
            "invalid character {invalid:?}. Variable names may contain only lower-case letters, \
             numbers, and underscores."
        )
    } else if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        "must start with a lowercase ASCII letter".to_owned()
    } else if name.ends_with('_') {
        "must end with a lowercase ASCII letter or digit".to_owned()
    } else if name.contains("__") {
        "must not contain multiple consecutive underscores".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::InvalidName(format!("{name:?}: {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        let defaults = [("host", Some("localhost")), ("port", Some("6379")), ("secret", None)]
            .map(|(name, default)| (name.to_owned(), default.map(str::to_owned)));
        let mut variables = Variables::new(defaults.into()).unwrap();
        let component = [("url", "redis://{{ host }}:{{ port }}"), ("key", "{{ secret }}")]
            .map(|(name, text)| (name.to_owned(), text.to_owned()));
        variables.add_component("reserve", &component.into()).unwrap();
        variables
    }

    #[test]
    fn the_first_provider_takes_precedence_over_later_ones_and_the_default() {
        let mut variables = variables();
        variables.add_provider(Provider::fixed([("port", "1")]));
        variables.add_provider(Provider::fixed([("port", "2"), ("host", "redis")]));
        assert_eq!(variables.component_value("reserve", "url").unwrap(), "redis://redis:1");
    }

    #[test]
    fn a_missing_required_variable_is_named_in_the_error() {
        let mut variables = variables();
        let error = variables.ensure_required().unwrap_err().to_string();
        assert!(error.contains("SPIN_VARIABLE_SECRET"), "{error}");
        variables.add_provider(Provider::fixed([("secret", "s")]));
        variables.ensure_required().unwrap();
        assert_eq!(variables.component_value("reserve", "key").unwrap(), "s");
    }

    #[test]
    fn a_component_sees_only_its_own_variables() {
        let variables = variables();
        assert!(matches!(variables.component_value("reserve", "host"), Err(Error::Undefined(_))));
        assert!(matches!(variables.component_value("other", "url"), Err(Error::Undefined(_))));
    }

    #[test]
    fn a_template_with_an_unknown_variable_is_refused() {
        let unknown = [("a".to_owned(), "{{ nope }}".to_owned())].into();
        assert!(matches!(variables().add_component("other", &unknown), Err(Error::InvalidTemplate(_))));
    }

    #[test]
    fn names_follow_spins_rules() {
        for good in ["a", "a1", "redis_url"] {
            check_name(good).unwrap();
        }
        for bad in ["", "A", "1a", "_a", "a_", "a__b", "a-b"] {
            assert!(check_name(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
