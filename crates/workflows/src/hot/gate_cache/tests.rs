use std::{collections::HashSet, rc::Rc};

use domain::{activity::ActivityState, ids::OrderNo, money::Money, order::Order, order::OrderStatus};
use proptest::prelude::*;

use super::*;
use crate::hot::winners::bit_number;

const KEY: &str = "key";

type Cache = GateCache<Rc<()>>;

fn request(ticket: u128, sku: &str, quantity: i64) -> ReserveRequest {
    request_of("sale", ticket, sku, quantity)
}

fn request_of(activity: &str, ticket: u128, sku: &str, quantity: i64) -> ReserveRequest {
    ReserveRequest {
        order_no: OrderNo::new(ActivityId::parse(activity).expect("id"), Ulid::from_parts(1, ticket)),
        user: UserId::parse("ada").expect("id"),
        sku: SkuId::parse(sku).expect("SKU"),
        quantity,
        start_key: KEY.to_owned(),
        ip: String::new(),
        counts: Vec::new(),
    }
}

fn gate(state: ActivityState) -> Gate {
    Gate { state, starts_at: Millis(0), ends_at: Millis(1_000_000), shed: false, start_key: KEY.to_owned() }
}

fn queued(request: &ReserveRequest) -> ReserveOutcome {
    ReserveOutcome::Queued(Box::new(Order {
        order_no: request.order_no.clone(),
        user: request.user.clone(),
        status: OrderStatus::Queued,
        sku: request.sku.clone(),
        quantity: request.quantity,
        ahead: 0,
        estimated_wait_ms: 0,
        money: Money::new(1, "EUR"),
        created_at: Millis(0),
        pay_by: None,
        paid_at: None,
        reason: None,
        checkout_url: None,
        declined_at: None,
    }))
}

/// Redis's reply at `now`, with the gate if the request refreshes it.
fn reply(outcome: ReserveOutcome, refreshes: bool, now: i64) -> ReserveReply {
    let gate = refreshes.then(|| gate(ActivityState::Published));
    ReserveReply { now: Millis(now), rate_limits: Vec::new(), gate, is_replay: false, outcome }
}

fn answer(cache: &mut Cache, request: &ReserveRequest, outcome: ReserveOutcome, refreshes: bool, now: i64) {
    cache.update(request, &mut reply(outcome, refreshes, now), Millis(now));
    if refreshes {
        cache.end_refresh(request.order_no.activity());
    }
}

fn sold_out(bitmap: &[u8]) -> ReserveOutcome {
    ReserveOutcome::SoldOut(Some(Winners::new(bitmap.to_vec())))
}

/// A cache that learned at 1,000 ms that SKU `a` is sold out, and that ticket 1 has won.
fn sold_out_cache() -> Cache {
    let mut cache = Cache::default();
    let loser = request(2, "a", 1);
    assert_eq!(cache.decide(&loser, Millis(1_000)), Decision::Refresh);
    answer(&mut cache, &loser, sold_out(&[0b0100_0000]), true, 1_000);
    cache
}

#[test]
fn losers_are_refused_from_memory_and_winners_are_sent() {
    let mut cache = sold_out_cache();
    let mut decide = |ticket, sku, now| cache.decide(&request(ticket, sku, 1), Millis(now));
    assert_eq!(decide(2, "a", 1_500), Decision::Refuse(Code::SoldOut, 0));
    assert_eq!(decide(1, "a", 1_500), Decision::Send);
    assert_eq!(decide(2, "b", 1_500), Decision::Send);
    assert_eq!(decide(2, "a", 2_500), Decision::Refresh);
}

#[test]
fn a_copy_is_used_for_900_ms_and_for_100_more_while_one_request_refreshes_it() {
    for refused in ["start key", "sold out", "ban"] {
        let mut cache = sold_out_cache();
        let mut request = request(2, "a", 1);
        match refused {
            "start key" => request.start_key = "another".to_owned(),
            "ban" => {
                request.sku = SkuId::parse("b").expect("SKU");
                answer(&mut cache, &request, ReserveOutcome::Refused(Code::Banned, 0), false, 1_000);
            }
            _ => {}
        }
        let mut is_refused = |now| matches!(cache.decide(&request, Millis(now)), Decision::Refuse(..));
        assert!(is_refused(1_900), "{refused}");
        assert!(!is_refused(999), "{refused}: the clock was set back");
        assert!(is_refused(2_000), "{refused}: another request refreshes");
        assert!(!is_refused(2_001), "{refused}");
    }
}

#[test]
fn a_closed_gate_refuses_with_its_code_and_wait_by_the_clock_of_redis() {
    let closed = Gate { starts_at: Millis(5_000), ..gate(ActivityState::Published) };
    for (gate, expected) in [
        (gate(ActivityState::Closed), Decision::Refuse(Code::Ended, 0)),
        (gate(ActivityState::Paused), Decision::Refuse(Code::Paused, 0)),
        (Gate { shed: true, ..gate(ActivityState::Published) }, Decision::Refuse(Code::Overloaded, 5_000)),
        (closed, Decision::Refuse(Code::NotOpen, 1_900)),
    ] {
        let mut cache = Cache::default();
        let request = request(1, "a", 1);
        assert_eq!(cache.decide(&request, Millis(0)), Decision::Refresh);
        let outcome = ReserveOutcome::Refused(Code::Paused, 0);
        // Redis's clock is 3 s ahead of the instance's.
        cache.update(&request, &mut ReserveReply { gate: Some(gate), ..reply(outcome, true, 3_000) }, Millis(0));
        assert_eq!(cache.decide(&request, Millis(100)), expected);
    }
}

#[test]
fn a_refusal_that_redis_repeats_costs_the_others_no_call() {
    let mut cache = sold_out_cache();
    // Ticket 9 shares its bit with ticket 1.
    assert_eq!(cache.decide(&request(9, "a", 1), Millis(1_500)), Decision::Send);
    answer(&mut cache, &request(9, "a", 1), ReserveOutcome::SoldOut(None), false, 1_500);
    assert_eq!(cache.decide(&request(2, "a", 1), Millis(1_600)), Decision::Refuse(Code::SoldOut, 0));
}

#[test]
fn one_request_reads_the_winners_when_others_learned_that_a_sku_is_sold_out() {
    let mut cache = sold_out_cache();
    for ticket in 10..14 {
        answer(&mut cache, &request(ticket, "b", 1), ReserveOutcome::SoldOut(None), false, 1_100);
    }
    assert_eq!(cache.decide(&request(2, "b", 1), Millis(1_200)), Decision::Refresh);
    assert_eq!(cache.decide(&request(3, "b", 1), Millis(1_200)), Decision::Wait);
    answer(&mut cache, &request(2, "b", 1), sold_out(&[0b0001_0000]), true, 1_200);
    assert_eq!(cache.decide(&request(2, "b", 1), Millis(1_300)), Decision::Refuse(Code::SoldOut, 0));
    assert_eq!(cache.decide(&request(3, "b", 1), Millis(1_300)), Decision::Send);
}

#[test]
fn a_smaller_quantity_is_sent_and_its_refusal_reads_the_winners_again() {
    let mut cache = Cache::default();
    let two = request(2, "a", 2);
    assert_eq!(cache.decide(&two, Millis(1_000)), Decision::Refresh);
    answer(&mut cache, &two, sold_out(&[0]), true, 1_000);
    assert_eq!(cache.decide(&request(3, "a", 1), Millis(1_100)), Decision::Send);
    answer(&mut cache, &request(3, "a", 1), ReserveOutcome::SoldOut(None), false, 1_100);
    assert_eq!(cache.decide(&request(4, "a", 1), Millis(1_200)), Decision::Refresh);
}

#[test]
fn waiting_requests_wake_when_the_refresh_ends() {
    let mut cache = Cache::default();
    let request = request(1, "a", 1);
    let (activity, waiter) = (request.order_no.activity(), Rc::new(()));
    cache.add_waiter(activity, waiter.clone());
    assert_eq!(Rc::strong_count(&waiter), 1, "nothing to wait for");
    assert_eq!(cache.decide(&request, Millis(0)), Decision::Refresh);
    assert_eq!(cache.decide(&request, Millis(0)), Decision::Wait);
    cache.add_waiter(activity, waiter.clone());
    assert_eq!(Rc::strong_count(&waiter), 2);
    cache.end_refresh(activity);
    assert_eq!(Rc::strong_count(&waiter), 1);
    assert_eq!(cache.decide(&request, Millis(0)), Decision::Refresh, "the first refresh failed");
}

#[test]
fn an_order_whose_reply_comes_before_an_older_bitmap_is_replayed() {
    let mut cache = sold_out_cache();
    let (loser, winner) = (request(2, "a", 1), request(3, "a", 1));
    assert_eq!(cache.decide(&loser, Millis(2_000)), Decision::Refresh);
    answer(&mut cache, &winner, queued(&winner), false, 2_010);
    answer(&mut cache, &loser, sold_out(&[0b0100_0000]), true, 2_020);
    assert_eq!(cache.decide(&loser, Millis(2_030)), Decision::Refuse(Code::SoldOut, 0));
    assert_eq!(cache.decide(&winner, Millis(2_030)), Decision::Send);
}

#[test]
fn a_ticket_that_won_another_sku_is_not_refused_as_sold_out() {
    let mut cache = sold_out_cache();
    answer(&mut cache, &request(3, "b", 1), queued(&request(3, "b", 1)), false, 1_100);
    assert_eq!(cache.decide(&request(3, "a", 1), Millis(1_200)), Decision::Send);
}

/// Lets the cache learn at `now` that `count` other activities are open, and that they have bitmaps of these bytes.
fn learn_of_others(cache: &mut Cache, count: usize, bytes: usize, now: i64) {
    for n in 0..count {
        let loser = request_of(&format!("other-{n}"), 2, "a", 1);
        assert_eq!(cache.decide(&loser, Millis(now)), Decision::Refresh);
        answer(cache, &loser, sold_out(&vec![0; bytes]), true, now);
    }
}

#[test]
fn a_new_activity_replaces_the_oldest_one_only() {
    let mut cache = sold_out_cache();
    learn_of_others(&mut cache, 1_500, 1, 1_100);
    assert!(cache.0.len() <= 1_024, "{} activities", cache.0.len());
    let others = (0..1_500).map(|n| request_of(&format!("other-{n}"), 2, "a", 1));
    let refused = others.filter(|other| matches!(cache.decide(other, Millis(1_200)), Decision::Refuse(..))).count();
    assert!(refused > 500, "{refused} activities are refused from memory");
    assert_eq!(cache.decide(&request(2, "a", 1), Millis(1_200)), Decision::Refresh, "the oldest one stayed");
}

#[test]
fn the_bitmaps_of_all_activities_have_a_bound() {
    let mut cache = Cache::default();
    learn_of_others(&mut cache, 80, 1 << 20, 1_000);
    let bytes: usize = cache.0.values().map(|entry| entry.winners.bytes()).sum();
    assert!(bytes <= 64 << 20, "{bytes} bytes");
    let last = request_of("other-79", 2, "a", 1);
    assert_eq!(cache.decide(&last, Millis(1_100)), Decision::Refuse(Code::SoldOut, 0));
}

#[test]
fn an_activity_that_a_request_refreshes_keeps_its_waiters_and_winners_when_others_come() {
    let mut cache = sold_out_cache();
    let (loser, winner, waiter) = (request(2, "a", 1), request(3, "a", 1), Rc::new(()));
    assert_eq!(cache.decide(&loser, Millis(2_100)), Decision::Refresh);
    cache.add_waiter(loser.order_no.activity(), waiter.clone());
    // The bitmap is read, and then the order is made.
    answer(&mut cache, &winner, queued(&winner), false, 2_110);
    learn_of_others(&mut cache, 2_000, 1, 2_120);
    assert_eq!(Rc::strong_count(&waiter), 2, "the waiter woke before the refresh ended");
    assert_ne!(cache.decide(&request(4, "b", 1), Millis(2_130)), Decision::Refresh, "a second refresh began");
    answer(&mut cache, &loser, sold_out(&[0b0100_0000]), true, 2_140);
    assert_eq!(cache.decide(&winner, Millis(2_150)), Decision::Send);
    assert_eq!(cache.decide(&loser, Millis(2_150)), Decision::Refuse(Code::SoldOut, 0));
}

/// Redis: units left and orders by SKU, and the bitmap of winners.
#[derive(Default)]
struct Redis {
    left: [i64; 2],
    orders: HashSet<u128>,
    bitmap: [u8; 2],
}

impl Redis {
    fn decide(&mut self, ticket: u128, sku: usize, quantity: i64) -> &'static str {
        if self.orders.contains(&ticket) {
            return "replayed";
        }
        if self.left[sku] < quantity {
            return "sold_out";
        }
        self.left[sku] -= quantity;
        self.orders.insert(ticket);
        let bit = bit_number(Ulid::from_parts(1, ticket)) as usize % 16;
        self.bitmap[bit / 8] |= 0x80 >> (bit % 8);
        "queued"
    }
}

/// A step of a schedule.
#[derive(Debug, Clone)]
enum Step {
    /// A request of a ticket for a SKU and quantity. If the cache sends it, Redis decides it.
    Send(u128, usize, i64),
    /// The reply to one of the requests in flight arrives, the oldest one or another.
    Receive(usize),
    /// One of the requests in flight ends without a reply.
    Lose(usize),
    /// The instance's clock moves; it may be set back.
    Wait(i64),
    /// A unit is released, or added.
    Release(usize),
    /// A ticket's order is made through another instance.
    SendElsewhere(u128, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (ticket, sku) = (0..40_u128, 0..2_usize);
    prop_oneof![
        12 => (ticket.clone(), sku.clone(), 1..3_i64).prop_map(|(ticket, sku, quantity)| Step::Send(ticket, sku, quantity)),
        8 => (0..8_usize).prop_map(Step::Receive),
        1 => (0..8_usize).prop_map(Step::Lose),
        3 => (-50..700_i64).prop_map(Step::Wait),
        1 => sku.clone().prop_map(Step::Release),
        1 => (ticket, sku).prop_map(|(ticket, sku)| Step::SendElsewhere(ticket, sku)),
    ]
}

/// A request that Redis decided and whose reply is on its way.
struct InFlight {
    request: ReserveRequest,
    ticket: u128,
    refreshes: bool,
    reply: ReserveReply,
    /// The tickets with orders when Redis decided.
    orders: HashSet<u128>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// B3 and the age limit, with up to eight requests in flight whose replies come in any order.
    #[test]
    fn a_refusal_is_never_older_than_a_second_and_never_of_a_ticket_known_to_have_won(steps in prop::collection::vec(step(), 1..120)) {
        let (mut cache, mut redis, mut now) = (Cache::default(), Redis { left: [2, 1], ..Redis::default() }, 10_000);
        let mut in_flight: Vec<InFlight> = Vec::new();
        let (mut known, mut read_at) = (HashSet::new(), None);
        // When a SKU was last refused with winners, and the smallest quantity that was ever refused.
        let mut refused: [Option<(i64, i64)>; 2] = [None; 2];
        for step in steps {
            match step {
                Step::Wait(ms) => now += ms,
                Step::Release(sku) => redis.left[sku] += 1,
                Step::SendElsewhere(ticket, sku) => {
                    redis.decide(ticket, sku, 1);
                }
                Step::Send(ticket, sku, quantity) if in_flight.len() < 8 => {
                    let request = request(ticket, ["a", "b"][sku], quantity);
                    let decision = cache.decide(&request, Millis(now));
                    let is_refreshing = in_flight.iter().any(|other| other.refreshes);
                    let max_age = if is_refreshing { 1_000 } else { 900 };
                    let refreshes = match decision {
                        Decision::Wait => {
                            prop_assert!(is_refreshing, "nothing to wait for");
                            continue;
                        }
                        Decision::Refuse(code, _) => {
                            prop_assert_eq!(code, Code::SoldOut);
                            prop_assert!(!known.contains(&ticket), "refuses the replay of ticket {}", ticket);
                            let Some((at, least)) = refused[sku] else { return Err(TestCaseError::fail("never sold out")) };
                            prop_assert!((0..=max_age).contains(&(now - at)), "a refusal {} ms old", now - at);
                            prop_assert!(quantity >= least, "refuses a smaller quantity");
                            false
                        }
                        Decision::Send => false,
                        Decision::Refresh => {
                            prop_assert!(!is_refreshing, "two refreshes");
                            true
                        }
                    };
                    if decision != Decision::Refresh {
                        let Some(at) = read_at else { return Err(TestCaseError::fail("decides without a gate")) };
                        prop_assert!((0..=max_age).contains(&(now - at)), "a gate {} ms old", now - at);
                    }
                    if matches!(decision, Decision::Refuse(..)) {
                        continue;
                    }
                    let word = redis.decide(ticket, sku, quantity);
                    let outcome = match word {
                        "sold_out" => ReserveOutcome::SoldOut(refreshes.then(|| Winners::new(redis.bitmap.to_vec()))),
                        _ => queued(&request),
                    };
                    let reply = ReserveReply { is_replay: word == "replayed", ..reply(outcome, refreshes, now) };
                    in_flight.push(InFlight { request, ticket, refreshes, reply, orders: redis.orders.clone() });
                }
                Step::Receive(index) if index < in_flight.len() => {
                    let InFlight { request, ticket, refreshes, mut reply, orders } = in_flight.remove(index);
                    let sku = usize::from(request.sku.as_str() == "b");
                    match &reply.outcome {
                        ReserveOutcome::SoldOut(winners) => {
                            let least = refused[sku].map_or(request.quantity, |(_, least)| least.min(request.quantity));
                            if winners.is_some() {
                                known.extend(orders);
                                refused[sku] = Some((now, least));
                            } else if let Some((at, _)) = refused[sku] {
                                refused[sku] = Some((at, least));
                            }
                        }
                        _ => {
                            known.insert(ticket);
                        }
                    }
                    if refreshes {
                        read_at = Some(now);
                    }
                    cache.update(&request, &mut reply, Millis(now));
                    if refreshes {
                        cache.end_refresh(request.order_no.activity());
                    }
                }
                Step::Lose(index) if index < in_flight.len() => {
                    let lost = in_flight.remove(index);
                    if lost.refreshes {
                        cache.end_refresh(lost.request.order_no.activity());
                    }
                }
                Step::Send(..) | Step::Receive(_) | Step::Lose(_) => {}
            }
        }
    }
}
