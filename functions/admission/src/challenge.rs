//! `POST /api/activities/:activity/challenge`: issues a human check (B5).
//!
//! The response for a proof of work is the challenge itself, as ALTCHA's widget expects it; for a picture puzzle it is
//! `{captcha}`, for a hosted check `{hosted}`.

use base64::{Engine, prelude::BASE64_STANDARD};
use domain::{
    activity::HumanCheck,
    api::admission::{Captcha, CaptchaChallenge, ChallengeOptions, SliderPiece},
    http::problem::{FieldError, Problem},
    human_check::{MAX_DIFFICULTY, PuzzleKind, difficulty},
    ids::ActivityId,
};
use platform::{
    http::{ApiError, Request, Response, not_found},
    instance_counts, random, settings,
};
use puzzle::{slider, sum};
use sale::{admission::Endpoint, limits};
use serde_json::{Value, json};

use crate::{
    hosted,
    precheck::{self, Precheck},
};

/// Issues a challenge that is bound to this user and activity.
pub async fn post(request: &Request, activity: ActivityId) -> Result<Response, ApiError> {
    let body: ChallengeOptions = precheck::optional_body(request)?;
    if body.altcha.is_some_and(|version| version != 2) {
        return Err(Problem::invalid(vec![FieldError::new("/altcha", "must be 2")]).into());
    }
    let chosen = |check: HumanCheck| if body.work { check.as_work() } else { check };
    let precheck = Precheck::run(request, activity, false, |check| Endpoint::Challenge(chosen(check))).await?;
    let document = match chosen(precheck.activity.spec.human_check) {
        HumanCheck::None => Err(not_found("This sale asks for no human check.")),
        HumanCheck::Pow => proof_of_work(&precheck, 1).await,
        // Twice as hard: only suspicious visitors work, or those for whom it stands in for another check.
        HumanCheck::Suspicious => proof_of_work(&precheck, 2).await,
        HumanCheck::Hosted => hosted::challenge().await,
        HumanCheck::Captcha => captcha(&precheck, body.captcha.unwrap_or_default()).await,
    };
    let document = document.inspect_err(|error| instance_counts::record_error(&precheck.visitor.activity, error))?;
    Ok(Response::json(200, &document).with_headers(limits::headers(&precheck.rate_limits)))
}

async fn proof_of_work(precheck: &Precheck, factor: i64) -> Result<Value, ApiError> {
    let (gate, least) = (&precheck.cached_gate.snapshot, precheck.activity.spec.min_difficulty);
    let difficulty = (difficulty(gate.visitors, gate.total_units(), least) * factor).min(MAX_DIFFICULTY);
    let (keys, subject) = (settings::load(settings::CHECK_KEYS).await?, precheck.subject());
    #[allow(clippy::cast_possible_truncation, reason = "any 64 of the random bits will do")]
    let challenge = keys.issue_altcha(subject, difficulty, random::bits() as u64, precheck.now);
    challenge
        .map(|challenge| json!(challenge))
        .ok_or_else(|| ApiError::Unexpected("no challenge could be made".to_owned()))
}

async fn captcha(precheck: &Precheck, kind: PuzzleKind) -> Result<Value, ApiError> {
    let issued = settings::load(settings::CHECK_KEYS).await?.issue_puzzle(
        precheck.subject(),
        kind,
        random::bits(),
        precheck.now,
    );
    let drawn = issued.and_then(|puzzle| {
        let (image, width, height, piece) = match kind {
            PuzzleKind::Slider => {
                let drawn = slider::draw(puzzle.seed)?;
                let piece = data_url(&drawn.piece);
                let piece = SliderPiece { piece, piece_size: slider::PIECE_SIZE, y: drawn.y };
                (drawn.image, slider::WIDTH, slider::HEIGHT, Some(piece))
            }
            PuzzleKind::Sum => (sum::draw(puzzle.seed)?, sum::WIDTH, sum::HEIGHT, None),
        };
        let (id, expires_at, image) = (puzzle.token, puzzle.record.expires_at, data_url(&image));
        let captcha = Captcha { kind, id, expires_at, image, width, height, piece };
        Some(json!(CaptchaChallenge { captcha }))
    });
    drawn.ok_or_else(|| ApiError::Unexpected("no puzzle could be drawn".to_owned()))
}

fn data_url(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png))
}
