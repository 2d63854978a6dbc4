//! Challenges, tickets and reservations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    http::body::{JsonObject, whole_number},
    human_check::PuzzleKind,
    ids::{OrderNo, SkuId},
    time::Millis,
};

/// What the page supports and the visitor prefers.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ChallengeOptions {
    /// The ALTCHA version of the page's widget: 2. The work of version 1 is much cheaper for a robot, so it has no
    /// challenges.
    #[schemars(with = "Option<i64>", extend("enum" = [2, null], "default" = 2))]
    pub altcha: Option<u8>,
    /// Whether the visitor wants a proof of work, of which the page has the widget, in place of a puzzle or a hosted check:
    /// not everybody can see a picture.
    #[serde(default)]
    pub work: bool,
    /// The kind of puzzle that the visitor prefers: `slider` by default.
    #[schemars(extend("default" = "slider"))]
    pub captcha: Option<PuzzleKind>,
}

/// A picture puzzle.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CaptchaChallenge {
    /// The puzzle.
    pub captcha: Captcha,
}

/// A picture puzzle, with the members of its kind.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Captcha {
    /// The kind.
    pub kind: PuzzleKind,
    /// The id, which the solution repeats.
    pub id: String,
    /// Until when it can be solved.
    pub expires_at: Millis,
    /// The picture as a `data:` URL.
    #[schemars(regex(pattern = "^data:image/png;base64,"))]
    pub image: String,
    /// Width of the picture, in pixels.
    #[schemars(with = "i64", range(min = 1))]
    pub width: u16,
    /// Height of the picture, in pixels.
    #[schemars(with = "i64", range(min = 1))]
    pub height: u16,
    /// The piece to slide.
    #[serde(flatten)]
    pub piece: Option<SliderPiece>,
}

/// The piece of a slider puzzle.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SliderPiece {
    /// Of a slider: the piece's picture as a `data:` URL.
    #[schemars(regex(pattern = "^data:image/png;base64,"))]
    pub piece: String,
    /// Of a slider: width and height of the piece, in pixels.
    #[schemars(with = "i64", range(min = 1))]
    pub piece_size: u16,
    /// Of a slider: distance of the piece from the top, in pixels.
    #[schemars(with = "i64", range(min = 0))]
    pub y: u16,
}

/// A check that a hosted service shows on the page.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HostedChallenge<'a> {
    /// The check.
    pub hosted: HostedCheck<'a>,
}

/// What the page needs to show a hosted widget.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct HostedCheck<'a> {
    /// URL of the service's script.
    pub script: &'a str,
    /// The site key, with which the page renders the widget.
    pub site_key: &'a str,
    /// The action to render the widget with, where the service has actions.
    pub action: &'static str,
}

/// What a ticket asks for: the solution of a human check (the payload of ALTCHA's widget, the solution of a picture puzzle, or
/// the token of a provider's widget), and a presale code.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct Solution {
    /// What ALTCHA's widget returned: base64 of its JSON, at most 2,048 bytes. It is a solution of every kind of check.
    pub altcha: Option<String>,
    /// The solution of a puzzle.
    #[schemars(with = "Option<PuzzleSolution>")]
    pub captcha: Option<JsonObject<PuzzleSolution>>,
    /// The token of a hosted widget, at most 8,192 bytes.
    pub hosted: Option<String>,
    /// A presale code, where the activity's `eligibility.codes` asks for one.
    pub code: Option<String>,
}

/// The solution of a picture puzzle.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct PuzzleSolution {
    /// The puzzle's id.
    pub id: String,
    /// The sum; of a slider, the distance of the piece's left edge from the left, in pixels.
    pub answer: i64,
    /// Of a slider: the movement of the piece, as pairs of milliseconds and pixels.
    #[serde(default)]
    pub track: Vec<(i64, i64)>,
}

/// A ticket.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Ticket")]
pub struct TicketDocument {
    /// Makes one order. It is the idempotency key of the reservation, and a bearer token for its order.
    #[schemars(regex(pattern = r"^1\."))]
    pub ticket: String,
    /// The order that the ticket makes. A client that lost the answer of its reservation polls it.
    pub order_no: OrderNo,
    /// Until when it can reserve.
    pub expires_at: Millis,
}

/// A reservation.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Reservation {
    /// The SKU.
    #[schemars(with = "SkuId")]
    pub sku: String,
    /// Units.
    #[serde(deserialize_with = "whole_number")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub quantity: i64,
    /// The ticket.
    #[schemars(extend("examples" = ["1.UoWv…"]))]
    pub ticket: String,
    /// The start key that the gate shows.
    #[serde(default)]
    pub start_key: String,
    /// What the buyer was shown: the price times the quantity, in minor units. An order of another amount is not made.
    #[schemars(range(min = 0))]
    pub amount: Option<i64>,
}
