//! Tickets asked for through proxies, and rotation of start keys (B4).

use reqwest::Method;
use serde_json::Value;

use super::{Answer, Sale, TestApp};

impl TestApp {
    /// Asks for a ticket as if it came over proxies.
    pub async fn ticket_from(&self, sale: &Sale, jwt: &str, forwarded: &str) -> Answer {
        self.ticket_claiming(sale, jwt, &[("x-forwarded-for", forwarded)]).await
    }

    pub async fn ticket_claiming(&self, sale: &Sale, jwt: &str, more: &[(&str, &str)]) -> Answer {
        let mut headers = vec![("authorization", format!("Bearer {jwt}"))];
        headers.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let path = format!("/api/activities/{}/ticket", sale.id);
        self.http.raw(Method::POST, &path, &headers, "").await.expect("an answer")
    }

    pub async fn rotate_start_key(&self, sale: &Sale) -> Answer {
        self.admin(Method::POST, &format!("/activities/{}/rotate-start-key", sale.id), &Value::Null).await
    }
}
