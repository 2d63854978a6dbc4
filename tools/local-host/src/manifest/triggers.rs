//! Parses the `[[trigger.…]]` and `[application.trigger.…]` sections.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail, ensure};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;

use super::{HttpTarget, HttpTrigger, RedisTrigger, schema};

/// The triggers of an application, by type.
#[derive(Debug, Default)]
pub struct Triggers {
    ids: BTreeSet<String>,
    pub http: Vec<HttpTrigger>,
    pub redis: Vec<RedisTrigger>,
}

impl Triggers {
    /// Adds the sections of one trigger type. Inline components are added to `components`.
    pub fn add(
        &mut self,
        kind: &str,
        sections: Vec<toml::Table>,
        components: &mut IndexMap<String, schema::Component>,
    ) -> anyhow::Result<()> {
        for (index, mut section) in sections.into_iter().enumerate() {
            let location = || format!("in [[trigger.{kind}]] number {}", index + 1);
            let id = self.assign_id(kind, &mut section).with_context(location)?;
            match kind {
                "http" => {
                    let trigger = http(parse(section).with_context(location)?, id, components);
                    self.http.push(trigger.with_context(location)?);
                }
                "redis" => {
                    let trigger = redis(parse(section).with_context(location)?, &id, components);
                    self.redis.push(trigger.with_context(location)?);
                }
                _ => bail!(
                    "this host has no trigger of the type {kind:?}, only http and redis; \
                     with Spin, a plugin may provide it"
                ),
            }
        }
        Ok(())
    }

    /// Returns the id of a trigger: the `id` of its section, or `<component>-<kind>-trigger`, or a numbered one.
    fn assign_id(&mut self, kind: &str, section: &mut toml::Table) -> anyhow::Result<String> {
        let explicit = match section.remove("id") {
            None => None,
            Some(toml::Value::String(id)) if id.is_empty() => None,
            Some(toml::Value::String(id)) => Some(id),
            Some(_) => bail!("the `id` must be a string"),
        };
        let component = section.get("component").and_then(toml::Value::as_str);
        let id = explicit
            .or_else(|| {
                let id = format!("{}-{kind}-trigger", component?);
                (!self.ids.contains(&id)).then_some(id)
            })
            .or_else(|| {
                let mut numbered = (1..).map(|number| format!("{kind}-trigger{number}"));
                numbered.find(|id| !self.ids.contains(id))
            })
            .context("there are too many triggers")?;
        self.ids.insert(id.clone());
        Ok(id)
    }
}

/// Checks `[application.trigger.…]` and returns its Redis address, or an empty string.
pub fn application_settings(sections: IndexMap<String, toml::Table>) -> anyhow::Result<String> {
    let mut address = String::new();
    for (kind, section) in sections {
        let location = || format!("in [application.trigger.{kind}]");
        match kind.as_str() {
            "http" => {
                let settings: schema::HttpSettings = parse(section).with_context(location)?;
                ensure!(
                    settings.base.is_none_or(|base| base == "/"),
                    "`base` is deprecated; put it in front of each route in [[trigger.http]]"
                );
            }
            "redis" => {
                let settings: schema::RedisSettings = parse(section).with_context(location)?;
                address = settings.address;
            }
            _ => bail!("[application.trigger.{kind}]: this host has only http and redis triggers"),
        }
    }
    Ok(address)
}

fn http(
    section: schema::HttpTrigger,
    id: String,
    components: &mut IndexMap<String, schema::Component>,
) -> anyhow::Result<HttpTrigger> {
    refuse_composition(&section.components, &section.dependencies)?;
    if let Some(executor) = &section.executor {
        let kind = executor.get("type").and_then(toml::Value::as_str);
        ensure!(
            matches!(kind, Some("http" | "spin")) && executor.len() == 1,
            "the executor must be {{ type = \"http\" }}; others need Spin"
        );
    }
    if let schema::Route::Private(private) = &section.route {
        ensure!(private.private, "route must be a string pattern or '{{ private = true }}', not {{ private = false }}");
    }
    let target = match (section.component, section.static_response) {
        (Some(component), None) => HttpTarget::Component(component_id(component, &id, components)?),
        (None, Some(response)) => HttpTarget::Static(response),
        (None, None) => bail!("a trigger needs a `component` or a `static_response`"),
        (Some(_), Some(_)) => bail!("a trigger has a `component` or a `static_response`, not both"),
    };
    Ok(HttpTrigger { id, route: section.route, target })
}

fn redis(
    section: schema::RedisTrigger,
    id: &str,
    components: &mut IndexMap<String, schema::Component>,
) -> anyhow::Result<RedisTrigger> {
    refuse_composition(&section.components, &section.dependencies)?;
    Ok(RedisTrigger {
        component: component_id(section.component, id, components)?,
        channel: section.channel,
        address: section.address,
    })
}

/// Returns the id of a trigger's component. The id of an inline component is derived from the trigger's.
fn component_id(
    spec: schema::ComponentSpec,
    trigger_id: &str,
    components: &mut IndexMap<String, schema::Component>,
) -> anyhow::Result<String> {
    let table = match spec {
        schema::ComponentSpec::Reference(id) => return Ok(id),
        schema::ComponentSpec::Inline(table) => table,
    };
    let component = parse(table).context("in the inline component")?;
    let mut id = format!("{trigger_id}-component");
    let mut counter = 1;
    while super::ids::check_kebab(&id).is_err() || components.contains_key(&id) {
        id = format!("inline-component{counter}");
        counter += 1;
    }
    components.insert(id.clone(), component);
    Ok(id)
}

fn refuse_composition(components: &toml::Table, dependencies: &toml::Table) -> anyhow::Result<()> {
    ensure!(
        components.is_empty() && dependencies.is_empty(),
        "`components` and `dependencies` of a trigger need Spin; this host does not compose components"
    );
    Ok(())
}

fn parse<T: DeserializeOwned>(table: toml::Table) -> anyhow::Result<T> {
    Ok(toml::Value::Table(table).try_into()?)
}
