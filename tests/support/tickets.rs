//! Ticket requests with proxy headers, and rotation of start keys (B4).

use reqwest::Method;
use serde_json::Value;

use super::{Response, TestActivity, TestApp};

impl TestApp {
    /// Requests a ticket with an `X-Forwarded-For` header.
    pub async fn request_ticket_through(&self, activity: &TestActivity, jwt: &str, forwarded_for: &str) -> Response {
        self.request_ticket_with_headers(activity, jwt, &[("x-forwarded-for", forwarded_for)]).await
    }

    /// Requests a ticket with additional headers.
    pub async fn request_ticket_with_headers(
        &self,
        activity: &TestActivity,
        jwt: &str,
        extra: &[(&str, &str)],
    ) -> Response {
        let mut headers = vec![("authorization", format!("Bearer {jwt}"))];
        headers.extend(extra.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let path = format!("/api/activities/{}/ticket", activity.id);
        self.http.send_with_headers(Method::POST, &path, &headers, "").await.expect("an answer")
    }

    /// Replaces the activity's start key, as an operator.
    pub async fn rotate_start_key(&self, activity: &TestActivity) -> Response {
        self.call_admin(Method::POST, &format!("/activities/{}/rotate-start-key", activity.id), &Value::Null).await
    }
}
