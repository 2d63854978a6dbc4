use std::{collections::HashSet, rc::Rc};

use domain::{
    activity::ActivityState,
    ids::{ActivityId, OrderNo},
};
use proptest::prelude::*;
use stores::{
    ports::RedisValue,
    reply::Reply,
    single_flight::{Action, SingleFlight},
};
use ulid::Ulid;

use super::*;
use crate::reserve::parse_order;

const KEY: &str = "key";

type Cache = SingleFlight<GateCache, Rc<()>>;

fn request(ticket: u128, sku: &str, quantity: i64) -> ReserveRequest {
    ReserveRequest {
        order_no: OrderNo::new(ActivityId::parse("sale").expect("id"), Ulid::from_parts(1, ticket)),
        user: UserId::parse("ada").expect("id"),
        sku: SkuId::parse(sku).expect("SKU"),
        quantity,
        amount: None,
        start_key: KEY.to_owned(),
        ip: String::new(),
        decide_until: Millis(0),
        last_order: Position::default(),
        counts: Vec::new(),
    }
}

fn decide(cache: &mut Cache, request: &ReserveRequest, now: i64) -> Action<Decision> {
    cache.enter(|gate, is_refreshing| gate.decide(request, Millis(now), is_refreshing))
}

fn gate(state: ActivityState) -> Gate {
    Gate { state, starts_at: Millis(0), ends_at: Millis(1_000_000), shed: false, start_key: KEY.to_owned() }
}

fn queued(request: &ReserveRequest) -> ReserveOutcome {
    let [zero, one] = [0, 1].map(RedisValue::Int);
    let mut reply = Reply::new(vec![zero.clone(), zero.clone(), one, RedisValue::Bytes(b"EUR".into()), zero]);
    ReserveOutcome::Queued(Box::new(parse_order(&mut reply, request).expect("an order")))
}

/// Redis's reply at `now`, with the gate if the request refreshes it.
fn reply(outcome: ReserveOutcome, refreshes: bool, now: i64) -> ReserveReply {
    let gate = refreshes.then(|| gate(ActivityState::Published));
    ReserveReply {
        now: Millis(now),
        rate_limits: Vec::new(),
        gate,
        is_repeat: false,
        position: Position::default(),
        outcome,
    }
}

fn answer(cache: &mut Cache, request: &ReserveRequest, outcome: ReserveOutcome, refreshes: bool, now: i64) {
    cache.value.update(request, &reply(outcome, refreshes, now), Millis(now));
    if refreshes {
        cache.end();
    }
}

const SOLD_OUT: ReserveOutcome = ReserveOutcome::Refused(Code::SoldOut, 0);
const REFUSED: Action<Decision> = Action::Use(Decision::Refuse(Code::SoldOut, 0));

/// A cache that learned at 1,000 ms that SKU `a` is sold out.
fn sold_out_cache() -> Cache {
    let mut cache = Cache::default();
    let loser = request(2, "a", 1);
    assert_eq!(decide(&mut cache, &loser, 1_000), Action::Fetch);
    answer(&mut cache, &loser, SOLD_OUT, true, 1_000);
    cache
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
        let mut is_refused = |now| matches!(decide(&mut cache, &request, now), Action::Use(Decision::Refuse(..)));
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
        assert_eq!(decide(&mut cache, &request, 0), Action::Fetch);
        let outcome = ReserveOutcome::Refused(Code::Paused, 0);
        // Redis's clock is 3 s ahead of the instance's.
        assert_eq!(cache.value.redis_time(Millis(100)), Millis(100));
        cache.value.update(&request, &ReserveReply { gate: Some(gate), ..reply(outcome, true, 3_000) }, Millis(0));
        assert_eq!(cache.value.redis_time(Millis(100)), Millis(3_100));
        assert_eq!(decide(&mut cache, &request, 100), Action::Use(expected));
    }
}

#[test]
fn one_request_asks_again_when_the_refusal_is_old_and_its_answer_counts() {
    let mut cache = sold_out_cache();
    // The gate is newer than the refusal.
    let others = request(2, "b", 1);
    assert_eq!(decide(&mut cache, &others, 1_950), Action::Fetch);
    answer(&mut cache, &others, queued(&others), true, 1_950);
    let loser = request(2, "a", 1);
    assert_eq!([(); 2].map(|()| decide(&mut cache, &loser, 2_001)), [Action::Fetch, Action::Wait]);
    answer(&mut cache, &loser, SOLD_OUT, true, 2_001);
    assert_eq!(decide(&mut cache, &loser, 2_100), REFUSED);
    answer(&mut cache, &request(3, "a", 1), queued(&request(3, "a", 1)), false, 2_200);
    assert_eq!(decide(&mut cache, &loser, 2_300), Action::Use(Decision::Send), "a unit was released");
}

#[test]
fn what_is_left_is_sent_and_its_refusal_stays_when_a_larger_quantity_is_refused_later() {
    let mut cache = Cache::default();
    let [one, two, three] = [1, 2, 3].map(|quantity| request(2, "a", quantity));
    assert_eq!(decide(&mut cache, &three, 1_000), Action::Fetch);
    answer(&mut cache, &three, ReserveOutcome::InsufficientStock(1), true, 1_000);
    assert_eq!(decide(&mut cache, &two, 1_100), Action::Use(Decision::InsufficientStock(1)));
    assert_eq!(decide(&mut cache, &one, 1_100), Action::Use(Decision::Send));
    answer(&mut cache, &one, SOLD_OUT, false, 1_100);
    answer(&mut cache, &three, ReserveOutcome::InsufficientStock(1), false, 1_150);
    assert_eq!([1, 2].map(|quantity| decide(&mut cache, &request(2, "a", quantity), 1_200)), [REFUSED; 2]);
}

/// Redis: units left by SKU, and the tickets that made orders.
#[derive(Default)]
struct Redis {
    left: [i64; 2],
    orders: HashSet<u128>,
}

impl Redis {
    /// The outcome, and whether it repeats an earlier one.
    fn decide(&mut self, ticket: u128, sku: usize, request: &ReserveRequest) -> (ReserveOutcome, bool) {
        let is_repeat = self.orders.contains(&ticket);
        if !is_repeat {
            match self.left[sku] {
                0 => return (SOLD_OUT, false),
                left if left < request.quantity => return (ReserveOutcome::InsufficientStock(left), false),
                _ => {}
            }
            self.left[sku] -= request.quantity;
            self.orders.insert(ticket);
        }
        (queued(request), is_repeat)
    }
}

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
}

fn step() -> impl Strategy<Value = Step> {
    let (ticket, sku) = (0..40_u128, 0..2_usize);
    prop_oneof![
        12 => (ticket, sku.clone(), 1..3_i64).prop_map(|(ticket, sku, quantity)| Step::Send(ticket, sku, quantity)),
        8 => (0..8_usize).prop_map(Step::Receive),
        1 => (0..8_usize).prop_map(Step::Lose),
        3 => (-50..700_i64).prop_map(Step::Wait),
        1 => sku.prop_map(Step::Release),
    ]
}

/// A request that Redis decided and whose reply is on its way.
struct InFlight {
    request: ReserveRequest,
    refreshes: bool,
    reply: ReserveReply,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The age limit, with up to eight requests in flight whose replies come in any order.
    #[test]
    fn a_refusal_is_never_older_than_a_second_and_never_of_what_was_left(steps in prop::collection::vec(step(), 1..120)) {
        let (mut cache, mut redis, mut now) = (Cache::default(), Redis { left: [2, 1], ..Redis::default() }, 10_000);
        let mut in_flight: Vec<InFlight> = Vec::new();
        let mut read_at = None;
        // When each SKU was refused, and the units left.
        let mut refused: [Vec<(i64, i64)>; 2] = Default::default();
        for step in steps {
            match step {
                Step::Wait(ms) => now += ms,
                Step::Release(sku) => redis.left[sku] += 1,
                Step::Send(ticket, sku, quantity) if in_flight.len() < 8 => {
                    let request = request(ticket, ["a", "b"][sku], quantity);
                    let decision = decide(&mut cache, &request, now);
                    let is_refreshing = in_flight.iter().any(|other| other.refreshes);
                    let max_age = if is_refreshing { 1_000 } else { 900 };
                    let refreshes = match decision {
                        Action::Wait => {
                            prop_assert!(is_refreshing, "nothing to wait for");
                            continue;
                        }
                        Action::Use(refusal @ (Decision::Refuse(..) | Decision::InsufficientStock(_))) => {
                            let said = match refusal {
                                Decision::InsufficientStock(left) => left,
                                refusal => {
                                    prop_assert_eq!(refusal, Decision::Refuse(Code::SoldOut, 0));
                                    0
                                }
                            };
                            let is_reason = |&(at, left): &(i64, i64)| (0..=max_age).contains(&(now - at)) && left == said;
                            prop_assert!(quantity > said && refused[sku].iter().any(is_reason), "{} at {}: {:?}", quantity, now, refused);
                            false
                        }
                        Action::Use(Decision::Send) => false,
                        Action::Fetch => {
                            prop_assert!(!is_refreshing, "two refreshes");
                            true
                        }
                    };
                    if decision != Action::Fetch {
                        let Some(at) = read_at else { return Err(TestCaseError::fail("decides without a gate")) };
                        prop_assert!((0..=max_age).contains(&(now - at)), "a gate {} ms old", now - at);
                    }
                    if matches!(decision, Action::Use(Decision::Refuse(..) | Decision::InsufficientStock(_))) {
                        continue;
                    }
                    let (outcome, is_repeat) = redis.decide(ticket, sku, &request);
                    let reply = ReserveReply { is_repeat, ..reply(outcome, refreshes, now) };
                    in_flight.push(InFlight { request, refreshes, reply });
                }
                Step::Receive(index) if index < in_flight.len() => {
                    let InFlight { request, refreshes, reply } = in_flight.remove(index);
                    let sku = usize::from(request.sku.as_str() == "b");
                    match reply.outcome {
                        ReserveOutcome::Refused(..) => refused[sku].push((now, 0)),
                        ReserveOutcome::InsufficientStock(left) => refused[sku].push((now, left)),
                        _ => {}
                    }
                    cache.value.update(&request, &reply, Millis(now));
                    if refreshes {
                        read_at = Some(now);
                        cache.end();
                    }
                }
                Step::Lose(index) if index < in_flight.len() => {
                    if in_flight.remove(index).refreshes {
                        cache.end();
                    }
                }
                Step::Send(..) | Step::Receive(_) | Step::Lose(_) => {}
            }
        }
    }
}
