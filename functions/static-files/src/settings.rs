//! What the variables say to the pages: how visitors sign in, what pages may load, and whose shop it is.

use std::{collections::HashMap, rc::Rc};

use domain::{
    branding::{self, Branding},
    http::problem::Problem,
    legal_links::LegalLinks,
    sign_in::{SignIn, SignInSettings, VARIABLES},
    siteverify,
};
use platform::{config, http::ApiError, single_flight::Once};
use serde::Serialize;

use crate::{branded_page, security::Policies};

thread_local! {
    static SETTINGS: Rc<Once<Settings>> = Rc::default();
}

/// The settings of all pages.
pub struct Settings {
    /// The content security policies.
    pub policies: Policies,
    /// The shop's name, logo, colours and texts.
    pub branding: Branding,
    /// The variable `shop_url`, without a slash at its end.
    pub shop_url: String,
    /// `settings.json`, or why the variables are wrong.
    pub document: Result<Document, Problem>,
}

/// The body of `settings.json`.
#[derive(Serialize)]
pub struct Document {
    sign_in: SignIn,
    links: LegalLinks,
}

impl Settings {
    /// Reads the variables, once per instance. With wrong ones, nobody can sign in, and the pages show the rest.
    pub async fn load() -> Result<Rc<Self>, ApiError> {
        let init = async || {
            let (script, origins) = (config::get("siteverify_script").await, config::get("siteverify_origins").await);
            let mut values = HashMap::new();
            for name in VARIABLES.into_iter().chain(branding::VARIABLES) {
                values.insert(name, config::get(name).await);
            }
            let value = |name: &str| values.get(name).map(|value| &**value).unwrap_or_default();
            let sign_in = SignInSettings::parse(value)
                .map_err(|fault| config::misconfigured("sign_in_url or oidc_issuer", &fault));
            // Readiness names what is wrong with these.
            let links = LegalLinks::parse(&config::get("legal_links").await).unwrap_or_default();
            let branding = Branding::parse(value).unwrap_or_default();
            let shop_url = config::get("shop_url").await.trim_end_matches('/').to_owned();
            Ok(Self {
                shop_url,
                ..Self::new(&siteverify::content_sources(&script, &origins), sign_in, links, branding)
            })
        };
        SETTINGS.with(Rc::clone).get_or_init(init).await
    }

    /// Builds the settings; `widget_sources` are those of hosted checks, or empty.
    pub fn new(
        widget_sources: &str,
        sign_in: Result<SignInSettings, Problem>,
        links: LegalLinks,
        branding: Branding,
    ) -> Self {
        let allowed = sign_in.clone().unwrap_or_else(|_| SignInSettings::none());
        let document = sign_in.map(|settings| Document { sign_in: settings.sign_in, links });
        let style_source = branded_page::style_source(&branding).unwrap_or_default();
        Self {
            policies: Policies::new(widget_sources, &allowed, &style_source),
            branding,
            shop_url: String::new(),
            document,
        }
    }
}
