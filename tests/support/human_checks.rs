//! Human checks (B5), and tickets that they open.

use altcha::{Challenge, Payload, SolveChallengeOptions, solve_challenge};
use domain::human_check::CheckKeys;
use serde_json::{Value, json};

use super::{Response, TestActivity, TestApp};

impl TestApp {
    pub async fn request_challenge(&self, activity: &TestActivity, jwt: &str, body: &Value) -> Response {
        self.http.post(&format!("/api/activities/{}/challenge", activity.id), jwt, body).await
    }

    /// What a widget sends once it has solved a challenge for this user.
    pub async fn solve_proof_of_work(&self, activity: &TestActivity, jwt: &str) -> Payload {
        let challenge: Challenge =
            serde_json::from_value(self.request_challenge(activity, jwt, &json!({})).await.is(200).json())
                .expect("a challenge as ALTCHA reads it");
        let solution = solve_challenge(SolveChallengeOptions::new(&challenge)).expect("solvable").expect("in time");
        Payload { challenge, solution }
    }

    /// Asks for a ticket with the answer to a check.
    pub async fn request_ticket_with(&self, activity: &TestActivity, jwt: &str, body: &Value) -> Response {
        self.http.post(&format!("/api/activities/{}/ticket", activity.id), jwt, body).await
    }

    /// The app's own keys, to know what a picture shows and to make checks of another time.
    pub fn check_keys(&self) -> CheckKeys {
        CheckKeys::new(self.variables.get("ticket_secret"))
    }
}
