//! Deserialises a `spin.toml` of version 2.
//!
//! Unknown keys are errors. Keys that Spin supports and this host does not are parsed, so that the parent module and
//! `triggers` can refuse them by name. Fields whose names begin with `_` are parsed and ignored.

use indexmap::IndexMap;
use serde::Deserialize;

/// A manifest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub spin_manifest_version: toml::Value,
    pub application: Application,
    #[serde(default)]
    pub variables: IndexMap<String, Variable>,
    #[serde(default)]
    pub trigger: IndexMap<String, Vec<toml::Table>>,
    #[serde(default)]
    pub component: IndexMap<String, Component>,
}

/// The `[application]` section.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    pub name: String,
    #[serde(default)]
    pub version: String,
    #[serde(default, rename = "description")]
    pub _description: String,
    #[serde(default, rename = "authors")]
    pub _authors: Vec<String>,
    #[serde(default, rename = "targets")]
    pub _targets: Vec<toml::Value>,
    #[serde(default)]
    pub trigger: IndexMap<String, toml::Table>,
    #[serde(default, rename = "tool")]
    pub _tool: IndexMap<String, toml::Table>,
}

/// An application variable.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    #[serde(default, rename = "description")]
    pub _description: Option<String>,
    #[serde(default)]
    pub required: bool,
    #[serde(default)]
    pub default: Option<String>,
    #[serde(default, rename = "secret")]
    pub _secret: bool,
}

/// A component.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    pub source: Source,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub variables: IndexMap<String, String>,
    #[serde(default)]
    pub environment: IndexMap<String, String>,
    #[serde(default)]
    pub files: Vec<FileMount>,
    #[serde(default)]
    pub exclude_files: Vec<String>,
    #[serde(default)]
    pub allowed_outbound_hosts: Vec<String>,
    #[serde(default)]
    pub allowed_http_hosts: Vec<String>,
    #[serde(default)]
    pub key_value_stores: Vec<String>,
    #[serde(default)]
    pub sqlite_databases: Vec<String>,
    #[serde(default)]
    pub ai_models: Vec<String>,
    #[serde(default, rename = "targets")]
    pub _targets: Option<Vec<toml::Value>>,
    #[serde(default, rename = "build")]
    pub _build: Option<Build>,
    #[serde(default, rename = "tool")]
    pub _tool: IndexMap<String, toml::Table>,
    #[serde(default, rename = "dependencies_inherit_configuration")]
    pub _dependencies_inherit_configuration: Option<bool>,
    #[serde(default)]
    pub dependencies: toml::Table,
    /// Ignored: it applies only with `--profile`, which this host does not have.
    #[serde(default, rename = "profile")]
    pub _profile: toml::Table,
}

/// The source of a component's WebAssembly code.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Source {
    /// A path.
    Local(String),
    /// A URL or a package.
    Remote(#[allow(dead_code)] toml::Table),
}

/// Files that a component can read.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum FileMount {
    /// A path or glob pattern. The guest sees the files under the same path.
    Pattern(String),
    /// A file or directory that the guest sees at another path.
    Placement(Placement),
}

/// The source and destination of a [`FileMount::Placement`].
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    pub source: String,
    pub destination: String,
}

/// How `spin build` builds a component. Parsed to report mistakes, never run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    #[serde(rename = "command")]
    pub _command: Commands,
    #[serde(default, rename = "workdir")]
    pub _workdir: Option<String>,
    #[serde(default, rename = "watch")]
    pub _watch: Vec<String>,
}

/// One command or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Commands {
    One(#[allow(dead_code)] String),
    Several(#[allow(dead_code)] Vec<String>),
}

/// A `[[trigger.http]]` section without its `id`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTrigger {
    #[serde(default)]
    pub component: Option<ComponentSpec>,
    pub route: Route,
    #[serde(default)]
    pub static_response: Option<StaticResponse>,
    #[serde(default)]
    pub executor: Option<toml::Table>,
    #[serde(default)]
    pub components: toml::Table,
    #[serde(default)]
    pub dependencies: toml::Table,
}

/// A `[[trigger.redis]]` section without its `id`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisTrigger {
    pub component: ComponentSpec,
    pub channel: String,
    #[serde(default)]
    pub address: Option<String>,
    #[serde(default)]
    pub components: toml::Table,
    #[serde(default)]
    pub dependencies: toml::Table,
}

/// The component of a trigger.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum ComponentSpec {
    /// The id of a `[component.…]` section.
    Reference(String),
    /// The component itself. Parsed later from the table, because an untagged enum would hide the cause of an error.
    Inline(toml::Table),
}

/// The route of an HTTP trigger.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Route {
    /// A path pattern for requests from outside.
    Public(String),
    /// Only other components can send requests.
    Private(Private),
}

/// `{ private = true }`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Private {
    pub private: bool,
}

/// A fixed response without a component.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticResponse {
    #[serde(default)]
    pub status_code: Option<u16>,
    #[serde(default)]
    pub headers: IndexMap<String, String>,
    #[serde(default)]
    pub body: Option<String>,
}

/// `[application.trigger.http]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    #[serde(default)]
    pub base: Option<String>,
}

/// `[application.trigger.redis]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisSettings {
    pub address: String,
}
