//! What the variables say to the pages: how visitors sign in, what pages may load, and whose shop it is.

use domain::{
    branding::Branding,
    legal_links::LegalLinks,
    settings::{self, Fault, Variables},
    sign_in::{SignIn, SignInSettings},
};
use serde::Serialize;

use crate::security::Policies;

/// The settings of all pages.
pub struct Settings {
    /// The content security policies.
    pub policies: Policies,
    /// The shop's name, logo, colours and texts.
    pub branding: Branding,
    /// The variable `shop_url`, without a slash at its end.
    pub shop_url: String,
    /// `settings.json`, or why the variables are wrong.
    pub document: Result<Document, Fault>,
}

/// The body of `settings.json`.
#[derive(Serialize)]
pub struct Document {
    sign_in: SignIn,
    links: LegalLinks,
}

impl Settings {
    /// Parses the settings. With wrong variables, nobody can sign in, and the pages show the rest.
    pub fn parse(variables: &Variables) -> Result<Self, Fault> {
        let branding = Branding::parse(variables).unwrap_or_default();
        let links = settings::LEGAL_LINKS(variables).unwrap_or_default();
        let sign_in = SignInSettings::parse(variables);
        let allowed = sign_in.clone().unwrap_or_else(|_| SignInSettings::none());
        Ok(Self {
            policies: Policies::new(settings::WIDGET_SOURCES(variables)?, &allowed),
            branding,
            shop_url: settings::SHOP_URL(variables)?,
            document: sign_in.map(|settings| Document { sign_in: settings.sign_in, links }),
        })
    }
}
