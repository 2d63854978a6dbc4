//! Variables of the app by name, and what is wrong with one.

use std::{borrow::Cow, rc::Rc};

use thiserror::Error;

/// Reads variables by name. One that is not set, or not granted to the component, is empty.
pub struct Variables<'a>(pub &'a dyn Fn(&'static str) -> Rc<str>);

/// What is wrong with a variable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the variable {variable} {reason}")]
pub struct Fault {
    /// The variable.
    pub variable: &'static str,
    /// Completes "the variable …"; contains no secret.
    pub reason: Cow<'static, str>,
}

impl Fault {
    /// A fault of this variable.
    #[must_use]
    pub fn new(variable: &'static str, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { variable, reason: reason.into() }
    }
}

/// Why secrets must not be used.
type SecretFault = fn(&str) -> Option<&'static str>;

impl Variables<'_> {
    /// Returns the value.
    #[must_use]
    pub fn get(&self, name: &'static str) -> Rc<str> {
        (self.0)(name)
    }

    /// Returns the value without the spaces around it.
    #[must_use]
    pub fn trimmed(&self, name: &'static str) -> String {
        self.get(name).trim().to_owned()
    }

    /// Parses the value. An error of `parse` becomes a fault of the variable.
    pub fn parse<T, E: Into<Cow<'static, str>>>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Fault> {
        parse(&self.get(name)).map_err(|reason| Fault::new(name, reason))
    }

    /// Returns the value if `fault` finds none.
    pub(crate) fn secrets(&self, name: &'static str, fault: SecretFault) -> Result<Rc<str>, Fault> {
        let value = self.get(name);
        fault(&value).map_or(Ok(value), |reason| Err(Fault::new(name, reason)))
    }

    /// Returns the value if `fault` finds none; `None` if the variable is empty and not required.
    pub(crate) fn optional_secrets(
        &self,
        name: &'static str,
        is_required: bool,
        fault: SecretFault,
    ) -> Result<Option<Rc<str>>, Fault> {
        if is_required || !self.trimmed(name).is_empty() { self.secrets(name, fault).map(Some) } else { Ok(None) }
    }
}
