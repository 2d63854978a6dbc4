//! Human checks (B5): request challenges, solve them, and request tickets with the solution.

use altcha::{Challenge, Payload, SolveChallengeOptions, solve_challenge};
use domain::human_check::CheckKeys;
use serde_json::{Value, json};

use super::{Response, TestActivity, TestApp};

impl TestApp {
    /// Requests a challenge.
    pub async fn request_challenge(&self, activity: &TestActivity, jwt: &str, body: &Value) -> Response {
        self.http.post(&format!("/api/activities/{}/challenge", activity.id), jwt, body).await
    }

    /// Requests and solves a proof-of-work challenge, and returns the payload that ALTCHA's widget would send.
    pub async fn solve_proof_of_work(&self, activity: &TestActivity, jwt: &str) -> Payload {
        let challenge: Challenge =
            serde_json::from_value(self.request_challenge(activity, jwt, &json!({})).await.is(200).json())
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
