//! Reserving: one call that decides and writes everything (`lua/reserve.lua`).

use domain::{
    activity::{ActivityState, Phase},
    ids::{ActivityId, OrderNo, SkuId, UserId},
    order::{Order, OrderStatus},
    problem::Code,
    time::Millis,
};

use crate::{
    DOORBELL_CHANNEL,
    hot::limits::{self, RateLimit},
    keys::Keys,
    ports::{Redis, StoreError},
    reply::Reply,
    script::RESERVE,
};

/// A reservation that passed everything CPU alone can check.
#[derive(Debug, Clone)]
pub struct ReserveRequest {
    /// The order that it makes: its number is its ticket's.
    pub order_no: OrderNo,
    /// Who buys.
    pub user: UserId,
    /// What.
    pub sku: SkuId,
    /// How many; at least 1.
    pub quantity: i64,
    /// The start key as sent.
    pub start_key: String,
    /// The client's address, as limits count it.
    pub ip: String,
    /// Addresses that sent bad tickets since the last call, and how many (B6).
    pub abuse_by_ip: Vec<(String, i64)>,
}

/// The gate as an instance remembers it for a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// What operators decided.
    pub state: ActivityState,
    /// When it opens.
    pub starts_at: Millis,
    /// When it ends.
    pub ends_at: Millis,
    /// Whether load is being shed.
    pub shed: bool,
    /// The start key.
    pub start_key: String,
}

impl Gate {
    /// What a visitor sees at `now`.
    #[must_use]
    pub fn phase(&self, now: Millis) -> Phase {
        self.state.phase(now, self.starts_at, self.ends_at)
    }
}

/// What became of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReserveOutcome {
    /// It holds units now, or did so the first time this ticket came.
    Queued(Box<Order>),
    /// Refused, with milliseconds to wait where that helps.
    Refused(Code, i64),
    /// Not enough left; the last four bytes of the ULIDs that won, by which a winner's retry is known.
    SoldOut(Vec<[u8; 4]>),
}

/// The whole answer of one call.
#[derive(Debug, Clone)]
pub struct ReserveReply {
    /// Redis's clock.
    pub now: Millis,
    /// Limits as they stand.
    pub rate_limits: Vec<RateLimit>,
    /// The gate, where it was asked for and there is one.
    pub gate: Option<Gate>,
    /// What became of it.
    pub outcome: ReserveOutcome,
}

/// Reserves. With `look`, the answer brings the gate along, so that memory is fed without a call of its own.
///
/// # Errors
/// [`StoreError`] of Redis; then the reservation may have happened: asking again with the same ticket tells.
pub async fn reserve<R: Redis>(
    redis: &R,
    request: &ReserveRequest,
    with_gate: bool,
) -> Result<ReserveReply, StoreError> {
    let keys = Keys::of(request.order_no.activity());
    let ulid = request.order_no.ulid();
    let mut script_keys = vec![
        keys.named("gate"),
        keys.order(ulid),
        keys.stock(&request.sku),
        keys.holders(&request.sku),
        keys.named("orders"),
        keys.named("queue"),
        keys.named("stats"),
        keys.named("awake"),
        keys.named("winners"),
        keys.ban_user(&request.user),
        keys.ban_ip(&request.ip),
        keys.rate_limit("user", request.user.as_str()),
        keys.rate_limit("ip", &request.ip),
        keys.rate_limit("all", ""),
        keys.abuse_user(&request.user),
        keys.abuse_ip(&request.ip),
    ];
    let mut args = vec![
        request.start_key.clone().into_bytes(),
        request.sku.as_str().as_bytes().to_vec(),
        request.quantity.to_string().into_bytes(),
        request.user.as_str().as_bytes().to_vec(),
        ulid.to_string().into_bytes(),
        request.order_no.activity().as_str().as_bytes().to_vec(),
        DOORBELL_CHANNEL.as_bytes().to_vec(),
        fingerprint(ulid).to_vec(),
        vec![if with_gate { b'1' } else { b'0' }],
    ];
    limits::push_abuse(&keys, &request.abuse_by_ip, &mut script_keys, &mut args);
    parse_reply(RESERVE.run(redis, script_keys, args).await?, request)
}

/// What the list of winners keeps of an order: the last four of its random bytes.
#[must_use]
pub fn fingerprint(ulid: ulid::Ulid) -> [u8; 4] {
    let bytes = ulid.to_bytes();
    [bytes[12], bytes[13], bytes[14], bytes[15]]
}

fn parse_reply(mut reply: Reply, request: &ReserveRequest) -> Result<ReserveReply, StoreError> {
    let word = reply.text()?;
    let now = Millis(reply.int()?);
    let rate_limits = limits::parse_rate_limits(&reply.text()?);
    let gate = parse_gate(&reply.text()?);
    let outcome = match word.as_str() {
        "queued" | "replayed" => ReserveOutcome::Queued(Box::new(parse_order(&mut reply, request)?)),
        "sold_out" => ReserveOutcome::SoldOut(reply.bytes()?.as_chunks::<4>().0.to_vec()),
        "rate_limited" => {
            reply.text()?;
            ReserveOutcome::Refused(Code::RateLimited, reply.int()?)
        }
        "not_open" => ReserveOutcome::Refused(Code::NotOpen, reply.int()?),
        "overloaded" => ReserveOutcome::Refused(Code::Overloaded, reply.int()?),
        word => match Code::parse(word) {
            Some(code) => ReserveOutcome::Refused(code, 0),
            None => return Err(StoreError::Malformed(format!("reserve answered {word:?}"))),
        },
    };
    Ok(ReserveReply { now, rate_limits, gate, outcome })
}

fn parse_order(reply: &mut Reply, request: &ReserveRequest) -> Result<Order, StoreError> {
    reply.int()?;
    Ok(Order {
        order_no: request.order_no.clone(),
        user: request.user.clone(),
        status: OrderStatus::Queued,
        sku: request.sku.clone(),
        quantity: request.quantity,
        ahead: reply.int()?,
        estimated_wait_ms: reply.int()?,
        money: reply.money()?,
        created_at: Millis(reply.int()?),
        pay_by: None,
        paid_at: None,
        reason: None,
        checkout_url: None,
    })
}

fn parse_gate(text: &str) -> Option<Gate> {
    let [state, starts_at, ends_at, shed, start_key]: [&str; 5] =
        text.split('|').collect::<Vec<_>>().try_into().ok()?;
    Some(Gate {
        state: ActivityState::parse(state)?,
        starts_at: Millis(starts_at.parse().ok()?),
        ends_at: Millis(ends_at.parse().ok()?),
        shed: shed == "1",
        start_key: start_key.to_owned(),
    })
}

/// The activity that a doorbell names.
#[must_use]
pub fn parse_doorbell(message: &[u8]) -> Option<ActivityId> {
    ActivityId::parse(std::str::from_utf8(message).ok()?).ok()
}
