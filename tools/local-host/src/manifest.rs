//! Reads `spin.toml` (manifest version 2) into an [`App`].

mod ids;
mod schema;
mod triggers;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use indexmap::IndexMap;

pub use self::schema::{FileMount, Route, StaticResponse};
use self::schema::{Manifest, Source};
use crate::{outbound::AllowedHosts, variables::Variables};

/// A validated application manifest.
#[derive(Debug)]
pub struct App {
    /// The directory of the manifest.
    pub root: PathBuf,
    /// The application's name.
    pub name: String,
    /// Its version, or an empty string.
    pub version: String,
    /// Variable names with their defaults; one without a default is required.
    pub variables: IndexMap<String, Option<String>>,
    /// The HTTP triggers, in the order of the manifest.
    pub http: Vec<HttpTrigger>,
    /// The Redis triggers, in the order of the manifest.
    pub redis: Vec<RedisTrigger>,
    /// The address (a template) of Redis triggers that set none, or an empty string.
    pub redis_address: String,
    /// The components by id.
    pub components: IndexMap<String, Component>,
}

/// A component.
#[derive(Debug)]
pub struct Component {
    /// The `.wasm` file.
    pub source: PathBuf,
    /// A one-line description for readers of the manifest.
    pub description: String,
    /// Its variables: templates that refer to the application's variables.
    pub variables: IndexMap<String, String>,
    /// Its environment variables.
    pub environment: IndexMap<String, String>,
    /// The files that it can read.
    pub files: Vec<FileMount>,
    /// Glob patterns of files that are left out.
    pub exclude_files: Vec<String>,
    /// The hosts that it may connect to.
    pub allowed_outbound_hosts: Vec<String>,
    /// Labels of its key-value stores.
    pub key_value_stores: Vec<String>,
    /// Labels of its databases.
    pub sqlite_databases: Vec<String>,
}

/// A route and its target.
#[derive(Debug)]
pub struct HttpTrigger {
    /// The trigger's id.
    pub id: String,
    /// The route.
    pub route: Route,
    /// What handles the requests.
    pub target: HttpTarget,
}

/// What handles a request.
#[derive(Debug, Clone)]
pub enum HttpTarget {
    /// A component, by id.
    Component(String),
    /// No component: a fixed response.
    Static(StaticResponse),
}

/// A channel and the component that handles its messages.
#[derive(Debug)]
pub struct RedisTrigger {
    /// The component's id.
    pub component: String,
    /// The channel (a template).
    pub channel: String,
    /// The server's address (a template), if it differs from the application's.
    pub address: Option<String>,
}

impl App {
    /// Loads the manifest at `path`, a file or a directory that contains a `spin.toml`.
    ///
    /// # Errors
    /// If it cannot be read, or contains something that Spin or this host does not support.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let file = if path.is_dir() { path.join("spin.toml") } else { path.to_owned() };
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read the manifest {}; name it with `-f`", file.display()))?;
        let file = std::path::absolute(&file)?;
        let root = file.parent().context("the manifest has no directory")?;
        Self::parse(&text, root).with_context(|| format!("in the manifest {}", file.display()))
    }

    /// Parses a manifest whose paths are relative to `root`.
    ///
    /// # Errors
    /// See [`App::load`].
    pub fn parse(text: &str, root: &Path) -> anyhow::Result<Self> {
        let manifest: Manifest = toml::from_str(text)?;
        ensure!(
            manifest.spin_manifest_version.as_integer() == Some(2),
            "spin_manifest_version is {}, but must be 2",
            manifest.spin_manifest_version
        );
        let mut components = manifest.component;
        let mut triggers = triggers::Triggers::default();
        for (kind, sections) in manifest.trigger {
            triggers.add(&kind, sections, &mut components)?;
        }
        ensure!(
            !(triggers.http.is_empty() && triggers.redis.is_empty()),
            "the application has no triggers; add a [[trigger.http]] or [[trigger.redis]] section"
        );
        let redis_address = triggers::application_settings(manifest.application.trigger)?;

        let app = Self {
            root: root.to_owned(),
            name: manifest.application.name,
            version: manifest.application.version,
            variables: variables(manifest.variables)?,
            http: triggers.http,
            redis: triggers.redis,
            redis_address,
            components: components
                .into_iter()
                .map(|(id, section)| {
                    let component = component(&id, section, root).with_context(|| format!("in [component.{id}]"))?;
                    Ok((id, component))
                })
                .collect::<anyhow::Result<_>>()?,
        };
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
        self.http.retain(|trigger| matches!(&trigger.target, HttpTarget::Component(id) if is_kept(id)));
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
        self.http
            .iter()
            .filter_map(|trigger| match &trigger.target {
                HttpTarget::Component(id) => Some(id.as_str()),
                HttpTarget::Static(_) => None,
            })
            .collect()
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

fn variables(sections: IndexMap<String, schema::Variable>) -> anyhow::Result<IndexMap<String, Option<String>>> {
    sections
        .into_iter()
        .map(|(name, variable)| {
            ids::check_variable(&name).map_err(anyhow::Error::msg).context("in [variables]")?;
            ensure!(
                variable.required != variable.default.is_some(),
                "the variable {name:?} must be `required` OR have a `default`"
            );
            Ok((name, variable.default))
        })
        .collect()
}

fn component(id: &str, section: schema::Component, root: &Path) -> anyhow::Result<Component> {
    ids::check_kebab(id).map_err(anyhow::Error::msg)?;
    for label in section.key_value_stores.iter().chain(&section.sqlite_databases) {
        ids::check_label(label).map_err(anyhow::Error::msg)?;
    }
    let Source::Local(source) = section.source else {
        bail!("a source from a URL or a registry needs Spin; here it must be the path of a .wasm file");
    };
    ensure!(
        section.allowed_http_hosts.is_empty(),
        "`allowed_http_hosts` is deprecated; write `allowed_outbound_hosts`"
    );
    ensure!(section.ai_models.is_empty(), "`ai_models` needs Spin; this host runs no models");
    ensure!(section.dependencies.is_empty(), "`dependencies` needs Spin; this host does not compose components");
    Ok(Component {
        source: root.join(source),
        description: section.description,
        variables: section.variables,
        environment: section.environment,
        files: section.files,
        exclude_files: section.exclude_files,
        allowed_outbound_hosts: section.allowed_outbound_hosts,
        key_value_stores: section.key_value_stores,
        sqlite_databases: section.sqlite_databases,
    })
}

#[cfg(test)]
mod tests;
