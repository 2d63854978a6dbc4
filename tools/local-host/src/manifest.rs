//! Reads `spin.toml` (manifest version 2) into an [`App`].

mod schema;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use indexmap::IndexMap;

use self::schema::Manifest;
pub use self::schema::{Component, HttpTrigger, RedisTrigger, Route};
use crate::{outbound::AllowedHosts, variables::Variables};

/// A validated application manifest.
#[derive(Debug)]
pub struct App {
    /// The directory of the manifest.
    pub root: PathBuf,
    /// Variable names with their defaults; one without a default is required.
    pub variables: IndexMap<String, Option<String>>,
    /// The HTTP triggers, in the order of the manifest.
    pub http: Vec<HttpTrigger>,
    /// The Redis triggers, in the order of the manifest.
    pub redis: Vec<RedisTrigger>,
    /// The address (a template) of the Redis triggers, or an empty string.
    pub redis_address: String,
    /// The components by id.
    pub components: IndexMap<String, Component>,
}

impl App {
    /// Loads the manifest at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or contains something that Spin or this host does not support.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let file = std::path::absolute(path)?;
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read the manifest {}", file.display()))?;
        let root = file.parent().context("the manifest has no directory")?;
        Self::parse(&text, root).with_context(|| format!("in the manifest {}", file.display()))
    }

    /// Parses a manifest whose paths are relative to `root`.
    ///
    /// # Errors
    /// See [`App::load`].
    pub fn parse(text: &str, root: &Path) -> anyhow::Result<Self> {
        let Manifest { spin_manifest_version: version, application, variables, trigger, component } =
            toml::from_str(text)?;
        ensure!(version == 2, "spin_manifest_version is {version}, but must be 2");
        let redis_address = application.trigger.redis.map(|redis| redis.address);
        ensure!(
            trigger.redis.is_empty() || redis_address.is_some(),
            "a Redis trigger needs the `address` in [application.trigger.redis]"
        );
        for trigger in &trigger.http {
            if let Route::Private(private) = &trigger.route {
                ensure!(private.private, "a route is a pattern or {{ private = true }}, not {{ private = false }}");
            }
        }
        let app = Self {
            root: root.to_owned(),
            variables: defaults(variables)?,
            http: trigger.http,
            redis: trigger.redis,
            redis_address: redis_address.unwrap_or_default(),
            components: component,
        };
        ensure!(!app.trigger_types().is_empty(), "the application has no triggers");
        app.check_references()?;
        app.check_templates()?;
        Ok(app)
    }

    /// Keeps only the components with these ids, and the triggers that call them.
    ///
    /// # Errors
    /// If an id is unknown, a kept component may call a removed one, or no kept component has a trigger.
    pub fn retain(&mut self, ids: &[String]) -> anyhow::Result<()> {
        let is_kept = |id: &str| ids.iter().any(|kept| kept == id);
        for id in ids {
            let component =
                self.components.get(id).with_context(|| format!("there is no component {id:?} to be selected"))?;
            // Hosts with a template are not checked, because it is not resolved yet. Spin does not check them either.
            for host in &component.allowed_outbound_hosts {
                let target = url::Url::parse(host).ok();
                let target = target.as_ref().and_then(|url| url.host_str()?.strip_suffix(".spin.internal"));
                ensure!(
                    target.is_none_or(is_kept),
                    "the selected component {id:?} may call one that is not selected: {host}"
                );
            }
        }
        self.components.retain(|id, _| is_kept(id));
        self.http.retain(|trigger| is_kept(&trigger.component));
        self.redis.retain(|trigger| is_kept(&trigger.component));
        ensure!(!self.trigger_types().is_empty(), "none of the selected components has a trigger");
        Ok(())
    }

    /// Returns the trigger types in use. Each type runs in its own process.
    pub fn trigger_types(&self) -> Vec<&'static str> {
        let mut types = Vec::new();
        if !self.http.is_empty() {
            types.push("http");
        }
        if !self.redis.is_empty() {
            types.push("redis");
        }
        types
    }

    /// Returns the ids of the components that HTTP triggers call.
    pub fn http_components(&self) -> BTreeSet<&str> {
        self.http.iter().map(|trigger| trigger.component.as_str()).collect()
    }

    /// Returns the ids of the components that Redis triggers call.
    pub fn redis_components(&self) -> BTreeSet<&str> {
        self.redis.iter().map(|trigger| trigger.component.as_str()).collect()
    }

    /// Returns the variables with their defaults and without providers.
    ///
    /// # Errors
    /// If a name or a template is malformed.
    pub fn variables(&self) -> anyhow::Result<Variables> {
        let mut variables = Variables::new(self.variables.clone())?;
        for (id, component) in &self.components {
            variables
                .add_component(id, &component.variables)
                .with_context(|| format!("in the variables of [component.{id}]"))?;
        }
        Ok(variables)
    }

    fn check_templates(&self) -> anyhow::Result<()> {
        let variables = self.variables()?;
        for (id, component) in &self.components {
            AllowedHosts::validate(&component.allowed_outbound_hosts, &variables)
                .with_context(|| format!("`allowed_outbound_hosts` of [component.{id}] is malformed"))?;
        }
        Ok(())
    }

    fn check_references(&self) -> anyhow::Result<()> {
        for id in self.http_components().into_iter().chain(self.redis_components()) {
            if !self.components.contains_key(id) {
                bail!(
                    "a trigger calls the component {id:?}, which is not there; the manifest has: {}",
                    self.components.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
                );
            }
        }
        Ok(())
    }
}

fn defaults(sections: IndexMap<String, schema::Variable>) -> anyhow::Result<IndexMap<String, Option<String>>> {
    sections
        .into_iter()
        .map(|(name, variable)| {
            ensure!(
                variable.required != variable.default.is_some(),
                "the variable {name:?} must be `required` OR have a `default`"
            );
            Ok((name, variable.default))
        })
        .collect()
}

#[cfg(test)]
mod tests;
