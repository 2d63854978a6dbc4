//! Human checks (B5): request challenges, solve them, and request tickets with the solution.

use altcha::{Challenge, Payload, SolveChallengeOptions, solve_challenge};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use domain::human_check::CheckKeys;
use serde_json::{Value, json};

use super::{Response, TestActivity, TestApp};

/// The body of a ticket request with an ALTCHA payload.
pub fn altcha_body(payload: &Payload) -> Value {
    json!({ "altcha": BASE64_STANDARD.encode(serde_json::to_string(payload).expect("json")) })
}

impl TestApp {
    /// Requests a challenge.
    pub async fn request_challenge(&self, activity: &TestActivity, jwt: &str, body: &Value) -> Response {
        self.http.post(&format!("/api/activities/{}/challenge", activity.id), jwt, body).await
    }

    /// Requests and solves a proof-of-work challenge, and returns the payload that ALTCHA's widget would send.
    pub async fn solve_proof_of_work(&self, activity: &TestActivity, jwt: &str) -> Payload {
        self.solve_challenge_of(activity, jwt, &json!({})).await
    }

    /// As [`TestApp::solve_proof_of_work`], with this request for the challenge.
    pub async fn solve_challenge_of(&self, activity: &TestActivity, jwt: &str, body: &Value) -> Payload {
        let challenge: Challenge =
            serde_json::from_value(self.request_challenge(activity, jwt, body).await.is(200).json())
                .expect("a challenge as ALTCHA reads it");
        let solution = solve_challenge(SolveChallengeOptions::new(&challenge)).expect("solvable").expect("in time");
        Payload { challenge, solution }
    }

    /// Requests a ticket; `body` has the answer to a human check.
    pub async fn request_ticket_with(&self, activity: &TestActivity, jwt: &str, body: &Value) -> Response {
        self.http.post(&format!("/api/activities/{}/ticket", activity.id), jwt, body).await
    }

    /// Returns the app's keys, to read the solution of a captcha and to issue challenges with another time.
    pub fn check_keys(&self) -> CheckKeys {
        CheckKeys::new(self.variables.get("ticket_secret"))
    }
}
