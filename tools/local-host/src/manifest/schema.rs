//! Deserialises a `spin.toml` of version 2: what the project's manifests have.
//!
//! Unknown keys are errors. Fields whose names begin with `_` are parsed and ignored.

use std::path::PathBuf;

use indexmap::IndexMap;
use serde::Deserialize;

/// A manifest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub spin_manifest_version: u32,
    pub application: Application,
    #[serde(default)]
    pub variables: IndexMap<String, Variable>,
    #[serde(default)]
    pub trigger: Triggers,
    #[serde(default)]
    pub component: IndexMap<String, Component>,
}

/// The `[application]` section.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    #[serde(rename = "name")]
    pub _name: String,
    #[serde(default, rename = "version")]
    pub _version: String,
    #[serde(default, rename = "description")]
    pub _description: String,
    #[serde(default, rename = "authors")]
    pub _authors: Vec<String>,
    #[serde(default)]
    pub trigger: TriggerSettings,
}

/// The `[application.trigger.…]` sections.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriggerSettings {
    pub redis: Option<RedisSettings>,
}

/// `[application.trigger.redis]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisSettings {
    pub address: String,
}

/// An application variable.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    #[serde(default, rename = "description")]
    pub _description: String,
    #[serde(default)]
    pub required: bool,
    #[serde(default)]
    pub default: Option<String>,
    #[serde(default, rename = "secret")]
    pub _secret: bool,
}

/// The `[[trigger.…]]` sections by type.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Triggers {
    #[serde(default)]
    pub http: Vec<HttpTrigger>,
    #[serde(default)]
    pub redis: Vec<RedisTrigger>,
}

/// A route and the component that handles its requests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTrigger {
    pub route: Route,
    pub component: String,
}

/// The route of an HTTP trigger.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Route {
    /// A path pattern for requests from outside.
    Public(String),
    /// Only other components can send requests.
    Private(Private),
}

/// `{ private = true }`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Private {
    pub private: bool,
}

/// A channel (a template) and the component that handles its messages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisTrigger {
    pub channel: String,
    pub component: String,
}

/// A component.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// The `.wasm` file, relative to the manifest.
    pub source: PathBuf,
    /// A one-line description for readers of the manifest.
    #[serde(default)]
    pub description: String,
    /// Its variables: templates that refer to the application's variables.
    #[serde(default)]
    pub variables: IndexMap<String, String>,
    /// The directories that it can read.
    #[serde(default)]
    pub files: Vec<Files>,
    /// The hosts that it may connect to.
    #[serde(default)]
    pub allowed_outbound_hosts: Vec<String>,
    /// Its key-value stores: the default one, if any.
    #[serde(default)]
    pub key_value_stores: Vec<DefaultStore>,
    /// Its databases: the default one, if any.
    #[serde(default)]
    pub sqlite_databases: Vec<DefaultStore>,
    #[serde(default, rename = "build")]
    pub _build: Option<Build>,
}

/// The label of a store.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultStore {
    Default,
}

/// A directory, and where the guest sees its files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    pub source: PathBuf,
    pub destination: String,
}

/// How `spin build` builds a component. Parsed to report mistakes, never run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    #[serde(rename = "command")]
    pub _command: String,
    #[serde(default, rename = "workdir")]
    pub _workdir: String,
    #[serde(default, rename = "watch")]
    pub _watch: Vec<String>,
}
