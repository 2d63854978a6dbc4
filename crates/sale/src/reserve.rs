//! Reserves units in one script call that decides and writes everything (`lua/reserve.lua`).

use domain::{
    activity::{ActivityState, Phase},
    http::problem::Code,
    ids::{OrderNo, SkuId, UserId},
    money::Money,
    order::{Order, OrderStatus},
    time::Millis,
};
use stores::{
    keys::Keys,
    ports::{Redis, RedisArg, StoreError},
    reply::{Reply, unexpected},
};
use ulid::Ulid;

use crate::{
    limits::{self, RateLimitStatus},
    line,
    scripts::RESERVE,
};

/// How long after its arrival a reservation may be decided, in milliseconds. Two more seconds are for its way to the app:
/// ten seconds after a request without an answer, it has made its order or never will.
pub const MAX_DELAY_MS: i64 = 8_000;

/// The place of an accepted order among all orders of its sale. A Redis that has not reached it lost the order (G16).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The epoch of the gate that accepted it.
    pub epoch: i64,
    /// Its number in that epoch, from 1.
    pub sequence: i64,
}

/// A reservation that passed all checks that need no store.
#[derive(Debug, Clone)]
pub struct ReserveRequest {
    /// Number of the order to make; its ULID is the ticket's.
    pub order_no: OrderNo,
    /// The buyer.
    pub user: UserId,
    /// The SKU.
    pub sku: SkuId,
    /// Number of units; at least 1.
    pub quantity: i64,
    /// The amount that the buyer was shown, in minor units, if the client sent it.
    pub amount: Option<i64>,
    /// The start key as sent by the client.
    pub start_key: String,
    /// The client's address as `platform::request_address` returns it (IPv6: the /64 network).
    pub ip: String,
    /// Redis's time until which Redis may decide it: a later call is refused as overloaded, and changes nothing.
    pub decide_until: Millis,
    /// The last order that the instance knows of; zero for none.
    pub last_order: Position,
    /// What the instance counted since its last call (B6, G2).
    pub counts: Vec<(String, i64)>,
}

/// The part of a gate that an instance caches for a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// State set by operators.
    pub state: ActivityState,
    /// Start of the activity.
    pub starts_at: Millis,
    /// End of the activity.
    pub ends_at: Millis,
    /// Whether load is being shed.
    pub shed: bool,
    /// The start key.
    pub start_key: String,
}

impl Gate {
    /// Reads the gate from a script's reply.
    pub(crate) fn read(reply: &mut Reply) -> Result<Self, StoreError> {
        Ok(Self {
            state: reply.parse()?,
            starts_at: Millis(reply.int()?),
            ends_at: Millis(reply.int()?),
            start_key: reply.text()?,
            shed: reply.int()? == 1,
        })
    }

    /// The phase that visitors see at `now`.
    #[must_use]
    pub fn phase(&self, now: Millis) -> Phase {
        self.state.phase(now, self.starts_at, self.ends_at)
    }
}

/// Result of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReserveOutcome {
    /// The order holds units, or held them when this ticket was first used (a repeat); or it waits in the line (H1).
    Queued(Box<Order>),
    /// Refused: none is left for more than one unit, or somebody waits; one unit can be waited for.
    OnlyOneByOne,
    /// Refused: the user waits for a unit of the SKU with this order's number.
    WaitsAlready(OrderNo),
    /// Refused, with the milliseconds to wait (0 if waiting does not help).
    Refused(Code, i64),
    /// Fewer units are left than requested: as many.
    InsufficientStock(i64),
    /// The units have another price than the buyer was shown: this one.
    PriceChanged(Money),
}

/// Reply of the script.
#[derive(Debug, Clone)]
pub struct ReserveReply {
    /// Redis time.
    pub now: Millis,
    /// The rate limits after this request.
    pub rate_limits: Vec<RateLimitStatus>,
    /// The gate; `None` if it was not requested or does not exist.
    pub gate: Option<Gate>,
    /// Whether the ticket had made its order before.
    pub is_repeat: bool,
    /// The position of the new order; zero if there is none.
    pub position: Position,
    /// Result of the reservation.
    pub outcome: ReserveOutcome,
}

/// Reserves units. `with_gate` requests the gate in the same reply, so that filling the gate cache needs no extra call.
///
/// # Errors
/// `RedisUnavailable` if the reservation may or may not have happened: a retry with the same ticket returns its
/// outcome.
pub async fn reserve<R: Redis>(
    redis: &R,
    request: &ReserveRequest,
    with_gate: bool,
) -> Result<ReserveReply, StoreError> {
    let keys = Keys::of(request.order_no.activity());
    let mut args: Vec<RedisArg> = vec![
        request.order_no.ulid().to_string().into(),
        request.user.as_str().into(),
        request.ip.as_str().into(),
        request.sku.as_str().into(),
        request.quantity.to_string().into(),
        request.start_key.as_str().into(),
        if with_gate { "1" } else { "0" }.into(),
        request.decide_until.0.to_string().into(),
        request.last_order.epoch.to_string().into(),
        request.last_order.sequence.to_string().into(),
        request.amount.map_or_else(String::new, |amount| amount.to_string()).into(),
    ];
    let (user, ip) = (&request.user, &request.ip);
    let mut script_keys = keys.all(["gate", "stats", "queued", "orders"]);
    script_keys.extend([
        keys.order(request.order_no.ulid()),
        keys.named("holders"),
        keys.named("rate:all"),
        keys.user("ban", user),
        keys.user("rate", user),
        keys.user("abuse", user),
        keys.ip("ban", ip),
        keys.ip("rate", ip),
        keys.ip("abuse", ip),
        keys.ip("suspect", ip),
        keys.named("entries"),
        keys.line(&request.sku),
    ]);
    limits::push_counts(&request.counts, &keys, &mut script_keys, &mut args);
    let reply = RESERVE.run(redis, script_keys, args).await?;
    parse_reply(reply, request)
}

fn parse_reply(mut reply: Reply, request: &ReserveRequest) -> Result<ReserveReply, StoreError> {
    let (word, now) = (reply.text()?, Millis(reply.int()?));
    let rate_limits = limits::parse_rate_limits(&reply.text()?);
    let mut position = Position::default();
    let outcome = match word.as_str() {
        "queued" | "repeated" | "joined" | "rejoined" => {
            let mut order = parse_order(&mut reply, request)?;
            position = Position { epoch: reply.int()?, sequence: reply.int()? };
            let state = if word == "rejoined" { reply.text()? } else { line::WAITING.to_owned() };
            if word.ends_with("joined") {
                (order.status, order.reason) = line::status_of_entry(&state, false);
            }
            ReserveOutcome::Queued(Box::new(order))
        }
        "insufficient_stock" => ReserveOutcome::InsufficientStock(reply.int()?),
        "price_changed" => ReserveOutcome::PriceChanged(reply.money()?),
        "sold_out" => match reply.int()? {
            0 => ReserveOutcome::Refused(Code::SoldOut, 0),
            _ => ReserveOutcome::OnlyOneByOne,
        },
        "limit_reached" => match reply.text()?.as_str() {
            "0" => ReserveOutcome::Refused(Code::LimitReached, 0),
            ulid => {
                let ulid = Ulid::from_string(ulid).map_err(|_| unexpected(ulid))?;
                ReserveOutcome::WaitsAlready(OrderNo::new(request.order_no.activity().clone(), ulid))
            }
        },
        word => ReserveOutcome::Refused(Code::parse(word).ok_or_else(|| unexpected(word))?, reply.int()?),
    };
    let gate = if reply.remaining() > 0 { Some(Gate::read(&mut reply)?) } else { None };
    Ok(ReserveReply {
        now,
        rate_limits,
        gate,
        is_repeat: matches!(word.as_str(), "repeated" | "rejoined"),
        position,
        outcome,
    })
}

pub(crate) fn parse_order(reply: &mut Reply, request: &ReserveRequest) -> Result<Order, StoreError> {
    Ok(Order {
        order_no: request.order_no.clone(),
        user: request.user.clone(),
        status: OrderStatus::Queued,
        sku: request.sku.clone(),
        quantity: request.quantity,
        ahead: Some(reply.int()?),
        estimated_wait_ms: reply.int()?,
        money: reply.money()?,
        created_at: Millis(reply.int()?),
        pay_by: None,
        paid_at: None,
        reason: None,
        checkout_url: None,
        refunded: 0,
        declined_at: None,
    })
}
