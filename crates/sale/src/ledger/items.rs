//! What items are called, as the specs of activities say.

use std::collections::HashMap;

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

/// The names of the SKUs of some activities, in the shop's language.
#[derive(Debug, Default)]
pub struct ItemNames(HashMap<(String, String), String>);

impl ItemNames {
    /// Loads them with one query. Those of a spec that cannot be read are missing.
    pub async fn load<S: Sql>(sql: &S, activities: &[&ActivityId]) -> Result<Self, StoreError> {
        #[derive(Deserialize)]
        struct Spec {
            skus: Vec<Item>,
        }
        let statement = format!("SELECT id, spec FROM activities WHERE id IN ({})", sql.dialect().json_values("?1"));
        let mut names = HashMap::new();
        for row in sql.run(&statement, vec![json!(activities).to_string().into()]).await? {
            let mut row = RowReader::new(row);
            let (activity, spec) = (row.text()?, row.text()?);
            let Ok(Spec { skus }) = serde_json::from_str(&spec) else { continue };
            names.extend(skus.iter().map(|sku| ((activity.clone(), sku.sku.clone()), sku.name(&Language::default()))));
        }
        Ok(Self(names))
    }

    /// The name of a SKU.
    #[must_use]
    pub fn get(&self, activity: &ActivityId, sku: &str) -> Option<String> {
        self.0.get(&(activity.to_string(), sku.to_owned())).cloned()
    }
}
