//! What items are called, as the specs of activities say.

use std::collections::{HashMap, HashSet};

use domain::{
    ids::ActivityId,
    language::{Language, Translations},
};
use serde::Deserialize;
use serde_json::json;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, StoreError},
};

/// The members of a SKU that say what it is.
#[derive(Debug, Default, Deserialize)]
pub struct Item {
    /// The SKU.
    pub sku: String,
    /// The product's name, or that of the option.
    pub name: String,
    /// The name in other languages.
    #[serde(default)]
    pub names: Translations,
    /// The item of which it is an option; empty if it is none.
    #[serde(default)]
    pub item: String,
    /// The item in other languages.
    #[serde(default)]
    pub items: Translations,
    /// URL of a picture; may be empty.
    #[serde(default)]
    pub image: String,
}

impl Item {
    /// The name in a language: with the item, if the SKU is an option of one.
    #[must_use]
    pub fn name(&self, language: &Language) -> String {
        let name = language.choose(&self.name, &self.names);
        match language.choose(&self.item, &self.items) {
            "" => name.to_owned(),
            item => format!("{item} · {name}"),
        }
    }
}

/// The names of the SKUs of some activities, in the shop's language, and which of these are rehearsals.
#[derive(Debug, Default)]
pub struct ItemNames {
    names: HashMap<(String, String), String>,
    rehearsals: HashSet<String>,
}

impl ItemNames {
    /// Loads them with one query. Those of a spec that cannot be read are missing.
    pub async fn load<S: Sql>(sql: &S, activities: &[&ActivityId]) -> Result<Self, StoreError> {
        #[derive(Deserialize)]
        struct Spec {
            skus: Vec<Item>,
            #[serde(default)]
            rehearsal: bool,
        }
        let statement = format!("SELECT id, spec FROM activities WHERE id IN ({})", sql.dialect().json_values("?1"));
        let mut found = Self::default();
        for row in sql.run(&statement, vec![json!(activities).to_string().into()]).await? {
            let mut row = RowReader::new(row);
            let (activity, spec) = (row.text()?, row.text()?);
            let Ok(Spec { skus, rehearsal }) = serde_json::from_str(&spec) else { continue };
            let name = |sku: &Item| ((activity.clone(), sku.sku.clone()), sku.name(&Language::default()));
            found.names.extend(skus.iter().map(name));
            if rehearsal {
                found.rehearsals.insert(activity);
            }
        }
        Ok(found)
    }

    /// The name of a SKU.
    #[must_use]
    pub fn get(&self, activity: &ActivityId, sku: &str) -> Option<String> {
        self.names.get(&(activity.to_string(), sku.to_owned())).cloned()
    }

    /// Whether the activity is a rehearsal (G21).
    #[must_use]
    pub fn is_rehearsal(&self, activity: &ActivityId) -> bool {
        self.rehearsals.contains(activity.as_str())
    }
}
