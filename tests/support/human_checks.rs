//! Human checks (B5), and tickets that they open.

use altcha::{Challenge, Payload, SolveChallengeOptions, solve_challenge};
use domain::check::CheckKeys;
use serde_json::{Value, json};

use super::{Answer, Sale, TestApp};

impl TestApp {
    pub async fn challenge(&self, sale: &Sale, jwt: &str, wish: &Value) -> Answer {
        self.http.post(&format!("/api/activities/{}/challenge", sale.id), jwt, wish).await
    }

    /// What a widget sends once it has solved a challenge for this user.
    pub async fn work(&self, sale: &Sale, jwt: &str) -> Payload {
        let challenge: Challenge = serde_json::from_value(self.challenge(sale, jwt, &json!({})).await.is(200).json())
            .expect("a challenge as ALTCHA reads it");
        let solution = solve_challenge(SolveChallengeOptions::new(&challenge)).expect("solvable").expect("in time");
        Payload { challenge, solution }
    }

    /// Asks for a ticket with the answer to a check.
    pub async fn ticket_with(&self, sale: &Sale, jwt: &str, body: &Value) -> Answer {
        self.http.post(&format!("/api/activities/{}/ticket", sale.id), jwt, body).await
    }

    /// The app's own keys, to know what a picture shows and to make checks of another time.
    pub fn check_keys(&self) -> CheckKeys {
        CheckKeys::new(self.variables.get("ticket_secret"))
    }
}
