//! `POST /api/activities/:activity/challenge`: a human check to solve (B5).
//!
//! A proof of work is answered as ALTCHA's widget reads it, the challenge itself; a picture puzzle as `{captcha}`.

use base64::{Engine, prelude::BASE64_STANDARD};
use domain::{
    activity::HumanCheck,
    check::{DEAREST, Kind, price},
    ids::ActivityId,
    problem::{FieldError, Problem},
};
use platform::{
    activity_cache, auth,
    http::{Answer, Call, Failure, not_found},
    limits,
};
use puzzle::{slider, sum};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::visitor::{self, Visit};

/// What a page may choose.
#[derive(Default, Deserialize)]
struct Wish {
    /// The version of ALTCHA that the widget speaks.
    altcha: Option<u8>,
    /// The puzzle that suits the visitor.
    captcha: Option<Kind>,
}

/// Answers a challenge for this user and sale.
pub async fn post(call: &Call, activity: ActivityId) -> Result<Answer, Failure> {
    let wish: Wish = visitor::body(call)?;
    if wish.altcha.is_some_and(|version| version != 1 && version != 2) {
        return Err(Problem::invalid(vec![FieldError::new("/altcha", "must be 1 or 2")]).into());
    }
    let visit = Visit::of(call, activity, "challenge").await?;
    let document = match visit.sale.spec.human_check {
        HumanCheck::None => return Err(not_found("This sale asks for no human check.")),
        HumanCheck::Pow => work(&visit, wish.altcha, 1).await?,
        // Whoever looks suspicious works twice as hard.
        HumanCheck::Suspicious => work(&visit, wish.altcha, 2).await?,
        HumanCheck::Captcha => puzzle(&visit, wish.captcha.unwrap_or_default()).await?,
    };
    let answer = Answer::json(200, &document);
    Ok(limits::headers(&visit.policies).into_iter().fold(answer, |answer, (name, value)| answer.header(name, value)))
}

async fn work(visit: &Visit, version: Option<u8>, factor: i64) -> Result<Value, Failure> {
    let price = (price(visit.glance.visitors, visit.glance.units()) * factor).min(DEAREST);
    let (keys, random, to) = (auth::checks().await?, activity_cache::random(), visit.subject());
    let challenge = match version {
        Some(1) => keys.ask_v1(to, price, random, visit.now).map(|challenge| json!(challenge)),
        #[allow(clippy::cast_possible_truncation, reason = "random bits")]
        _ => keys.ask_v2(to, price, random as u64, visit.now).map(|challenge| json!(challenge)),
    };
    challenge.ok_or_else(|| Failure::Unexpected("no challenge could be made".to_owned()))
}

async fn puzzle(visit: &Visit, kind: Kind) -> Result<Value, Failure> {
    let asked = auth::checks().await?.ask_puzzle(visit.subject(), kind, activity_cache::random(), visit.now);
    let drawn = asked.and_then(|puzzle| {
        let mut captcha = match kind {
            Kind::Slider => {
                let drawn = slider::draw(puzzle.seed)?;
                json!({
                    "image": url(&drawn.image), "width": slider::WIDTH, "height": slider::HEIGHT,
                    "piece": url(&drawn.piece), "piece_size": slider::PIECE, "y": drawn.y,
                })
            }
            Kind::Sum => json!({ "image": url(&sum::draw(puzzle.seed)?), "width": sum::WIDTH, "height": sum::HEIGHT }),
        };
        captcha["kind"] = json!(kind);
        captcha["id"] = json!(puzzle.token);
        captcha["expires_at"] = json!(puzzle.proof.expires_at);
        Some(json!({ "captcha": captcha }))
    });
    drawn.ok_or_else(|| Failure::Unexpected("no puzzle could be drawn".to_owned()))
}

fn url(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png))
}
