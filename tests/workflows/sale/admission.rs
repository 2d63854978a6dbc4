//! Tests of `lua/precheck.lua`: rate limits, bans and suspicion (B4, B6).

use domain::{
    activity::{ActivityState, HumanCheck, Limit, Limits},
    http::problem::Code,
    ids::UserId,
    time::Millis,
};
use operations::commands::{
    activities::{OperationOutcome, OperatorContext},
    bans::{self, BanSubject},
    stats::stats,
};
use payments::commands::CommandOutcome;
use sale::{
    admission::{Endpoint, MAX_OPEN_TICKETS, SUSPICION_THRESHOLD, Visitor, precheck},
    reserve::{ReserveOutcome, ReserveRequest, reserve},
};
use stores::{Redis, keys::Keys, ports::RedisValue};
use ulid::Ulid;

use crate::fixture::{RealFixture, new_fixture};

/// A request for a ticket.
pub const TICKET: Endpoint = Endpoint::Ticket(Ulid(0));
const CHALLENGE: Endpoint = Endpoint::Challenge(HumanCheck::Pow);

pub fn visitor(fixture: &RealFixture, user: &str, ip: &str) -> Visitor {
    let user = UserId::parse(user).unwrap();
    Visitor { activity: fixture.activity.clone(), user, ip: ip.to_owned(), counts: Vec::new() }
}

/// Asks whether a visitor may have what `endpoint` gives. Returns the suspicion score, or the refusal.
pub async fn ask(fixture: &RealFixture, visitor: &Visitor, endpoint: Endpoint) -> Result<i64, (Code, i64)> {
    precheck(&fixture.redis, visitor, endpoint).await.unwrap().outcome
}

/// An activity that allows each user `count` requests a minute, and has no other limit.
async fn rate_limited(count: i64) -> RealFixture {
    with_limits(Limits { user: Some(Some(Limit { count, seconds: 60 })), ip: Some(None), all: Some(None) }).await
}

/// An activity with ten units, one per user.
pub async fn with_limits(limits: Limits) -> RealFixture {
    let fixture = new_fixture("sqlite", 10, 1).await;
    let changed = fixture.change_spec(|spec| spec.limits = limits).await;
    assert!(matches!(changed, OperationOutcome::Done(_) | OperationOutcome::Unchanged(_)), "{changed:?}");
    fixture
}

#[tokio::test]
async fn too_many_requests_are_rate_limited_and_then_banned() {
    let fixture = rate_limited(5).await;
    let eager = visitor(&fixture, "eager", "192.0.2.1");
    let mut outcomes = Vec::new();
    for _ in 0..5 + 60 + 1 {
        outcomes.push(ask(&fixture, &eager, TICKET).await);
    }
    assert_eq!(outcomes[..5], [Ok(0); 5]);
    let is_limited = |outcome: &Result<i64, (Code, i64)>| matches!(outcome, Err((Code::RateLimited, 1..)));
    assert!(outcomes[5..65].iter().all(is_limited), "{outcomes:?}");
    assert_eq!(outcomes[65], Err((Code::Banned, 0)));
    // The ban refuses reservations too, and affects no other user.
    assert_eq!(fixture.reserve(1, "eager", 1).await.unwrap().outcome, ReserveOutcome::Refused(Code::Banned, 0));
    let neighbour = visitor(&fixture, "calm", "192.0.2.1");
    assert!(ask(&fixture, &neighbour, TICKET).await.is_ok());
    // A ban expires, or an operator lifts it. The user's suspicion score stays high.
    bans::lift(&fixture.redis, &fixture.sql, &BanSubject::User(eager.user.clone())).await.unwrap();
    let score = ask(&fixture, &Visitor { ip: "192.0.2.9".to_owned(), ..eager }, CHALLENGE).await;
    assert!(score.is_ok_and(|score| score >= SUSPICION_THRESHOLD), "{score:?}");
}

#[tokio::test]
async fn the_limit_in_all_counts_orders_so_that_no_account_uses_it_up() {
    let limit = |count| Some(Some(Limit { count, seconds: 3_600 }));
    let fixture = with_limits(Limits { user: limit(8), ip: Some(None), all: limit(2) }).await;
    let reserve = async |n, user| fixture.reserve(n, user, 1).await.unwrap();
    let is_queued = |outcome: &ReserveOutcome| matches!(outcome, ReserveOutcome::Queued(_));
    let first = reserve(1, "eager").await;
    assert!(is_queued(&first.outcome));
    let names: Vec<_> = first.rate_limits.iter().map(|limit| (limit.name.as_str(), limit.remaining)).collect();
    assert_eq!(names, [("user", 7), ("all", 1)]);
    // Its order once more, another quantity of it, and a second order, which it may not have.
    assert!(is_queued(&reserve(1, "eager").await.outcome));
    let conflict = fixture.reserve(1, "eager", 2).await.unwrap().outcome;
    assert_eq!(conflict, ReserveOutcome::Refused(Code::TicketConflict, 0));
    assert_eq!(reserve(2, "eager").await.outcome, ReserveOutcome::Refused(Code::LimitReached, 0));
    assert!(is_queued(&reserve(3, "calm").await.outcome));
    let late = reserve(4, "late").await;
    assert!(matches!(late.outcome, ReserveOutcome::Refused(Code::RateLimited, wait) if wait > 0), "{late:?}");
    let names: Vec<_> = late.rate_limits.iter().map(|limit| (limit.name.as_str(), limit.remaining)).collect();
    assert_eq!(names, [("user", 7), ("all", 0)], "and its own limit is charged");
    // Who has an order gets its answer.
    assert!(is_queued(&reserve(3, "calm").await.outcome));
    // Who tries without pause meets the user's limit, and is banned.
    let mut outcomes = Vec::new();
    while outcomes.last() != Some(&ReserveOutcome::Refused(Code::Banned, 0)) && outcomes.len() < 100 {
        outcomes.push(reserve(4, "late").await.outcome);
    }
    assert_eq!(outcomes.len(), 7 + 60 + 1, "{outcomes:?}");
    assert_eq!(fixture.units().await, (8, 2, 0));
}

#[tokio::test]
async fn a_cancelled_order_gives_back_what_it_took_of_the_limit_in_all() {
    let all = Limit { count: 2, seconds: 3_600 };
    let fixture = with_limits(Limits { user: None, ip: Some(None), all: Some(Some(all)) }).await;
    // One account, with one ticket after the other.
    for n in 0..10 {
        let order_no = fixture.pending_order(n, "eager", 1).await;
        assert!(matches!(fixture.cancel(&order_no).await.unwrap(), CommandOutcome::Done(_)), "{n}");
        // A cancel that is repeated gives nothing back again.
        fixture.recover().await;
        assert!(matches!(fixture.cancel(&order_no).await.unwrap(), CommandOutcome::Done(_)), "{n}: again");
    }
    let calm = fixture.pending_order(10, "calm", 1).await;
    fixture.payment_succeeded(&calm, "event").await.unwrap();
    fixture.pending_order(11, "late", 1).await;
    let refused = fixture.reserve(12, "later", 1).await.unwrap().outcome;
    assert!(matches!(refused, ReserveOutcome::Refused(Code::RateLimited, wait) if wait > 0), "{refused:?}");
}

#[tokio::test]
async fn a_user_cannot_stockpile_tickets() {
    let fixture = rate_limited(1_000).await;
    let hoarder = visitor(&fixture, "hoarder", "192.0.2.1");
    for _ in 0..MAX_OPEN_TICKETS {
        assert!(ask(&fixture, &hoarder, TICKET).await.is_ok());
    }
    let refused = ask(&fixture, &hoarder, TICKET).await;
    assert!(matches!(refused, Err((Code::RateLimited, wait)) if wait > 0), "{refused:?}");
    assert!(ask(&fixture, &hoarder, CHALLENGE).await.is_ok());
    let other = visitor(&fixture, "other", "192.0.2.1");
    assert!(ask(&fixture, &other, TICKET).await.is_ok());
}

/// A /48 has 65,536 networks that each count as an address: one costs no more than the other.
#[tokio::test]
async fn an_ipv6_site_gets_four_times_the_tickets_of_an_address() {
    let ip = Some(Some(Limit { count: 5, seconds: 3_600 }));
    let fixture = with_limits(Limits { user: None, ip, all: None }).await;
    let passed = async |endpoint: Endpoint, addresses: Vec<String>| {
        let mut passed = 0;
        for (index, address) in addresses.iter().enumerate() {
            let visitor = visitor(&fixture, &format!("{address}-{index}").replace([':', '/'], "_"), address);
            passed += usize::from(ask(&fixture, &visitor, endpoint).await.is_ok());
        }
        passed
    };
    let networks = |site: &str| (0..60).map(|n| format!("{site}:{n:x}::/64")).collect::<Vec<_>>();
    assert_eq!(passed(TICKET, networks("2001:db8:1")).await, 20);
    assert_eq!(passed(CHALLENGE, networks("2001:db8:1")).await, 20);
    assert_eq!(passed(TICKET, networks("2001:db8:2")).await, 20);
    assert_eq!(passed(TICKET, vec!["2001:db8:3:1::/64".to_owned(); 9]).await, 5);
    assert_eq!(passed(TICKET, (0..60).map(|n| format!("198.51.100.{n}")).collect()).await, 60);
}

/// How long a key is kept, in milliseconds.
pub async fn record_ttl(fixture: &RealFixture, key: &str) -> i64 {
    match fixture.run_redis(&["PTTL", key]).await[..] {
        [RedisValue::Int(left)] => left,
        ref other => panic!("{other:?}"),
    }
}

/// A client that changes its address makes a record for each, in the memory of Redis.
#[tokio::test]
async fn abuse_of_an_address_is_kept_for_a_minute_and_of_a_user_for_half_an_hour() {
    let fixture = rate_limited(5).await;
    let keys = Keys::of(&fixture.activity);
    for number in [1, 598] {
        report_abuse(&fixture, "203.0.113.60", number).await;
        let left = record_ttl(&fixture, &keys.named("abuse:ip:203.0.113.60")).await;
        assert!((1..=60_000).contains(&left), "{left}");
    }
    let eager = visitor(&fixture, "eager", "192.0.2.1");
    for _ in 0..6 {
        precheck(&fixture.redis, &eager, TICKET).await.unwrap();
    }
    let left = record_ttl(&fixture, &keys.user("abuse", &eager.user)).await;
    assert!((1_790_000..=1_800_000).contains(&left), "{left}");
}

/// Reports forged tickets of an address with the request of another visitor.
async fn report_abuse(fixture: &RealFixture, ip: &str, number: i64) {
    let reporter = Visitor { counts: vec![(ip.to_owned(), number)], ..visitor(fixture, "reporter", "192.0.2.1") };
    assert!(ask(fixture, &reporter, CHALLENGE).await.is_ok());
}

/// An attacker behind the address of a carrier makes its customers solve checks for a minute at most.
#[tokio::test]
async fn neighbours_of_an_abuser_are_suspicious_only_while_their_address_is_marked() {
    let fixture = new_fixture("sqlite", 10, 1).await;
    for ip in ["203.0.113.70", "10.1.2.3"] {
        let neighbour = visitor(&fixture, "calm", ip);
        let score = async || ask(&fixture, &neighbour, CHALLENGE).await.expect("no refusal");
        report_abuse(&fixture, ip, 599).await;
        assert_eq!(score().await, 0, "{ip}: not marked yet");
        for _ in 0..5 {
            report_abuse(&fixture, ip, 600).await;
            // The mark's minute passes.
            let mark = Keys::of(&fixture.activity).named(&format!("suspect:ip:{ip}"));
            fixture.run_redis(&["DEL", &mark]).await;
        }
        assert_eq!(score().await, 0, "{ip}: not marked any more");
    }
}

#[tokio::test]
async fn invalid_tickets_are_reported_with_the_next_valid_request_and_make_only_their_address_suspicious() {
    let fixture = new_fixture("sqlite", 10, 5).await;
    let reporting = async |abused: i64, n: u64| {
        let counts = vec![("203.0.113.7".to_owned(), abused), ("203.0.113.8".to_owned(), 1)];
        let request = ReserveRequest { ip: "192.0.2.1".to_owned(), counts, ..fixture.reservation(n, "ada", 1) };
        let outcome = reserve(&fixture.redis, &request, false).await.unwrap().outcome;
        assert!(matches!(outcome, ReserveOutcome::Queued(_)), "{outcome:?}");
    };
    let robot = visitor(&fixture, "robot", "203.0.113.7");
    reporting(599, 1).await;
    assert!(ask(&fixture, &robot, TICKET).await.is_ok());
    reporting(1, 2).await;
    let score = async |visitor: &Visitor| ask(&fixture, visitor, TICKET).await.expect("no refusal");
    assert!(score(&robot).await >= SUSPICION_THRESHOLD);
    let neighbour = visitor(&fixture, "calm", "203.0.113.8");
    assert!(score(&neighbour).await < SUSPICION_THRESHOLD);
    // A request for a ticket reports invalid tickets too.
    let reporter = Visitor { counts: vec![("203.0.113.9".to_owned(), 600)], ..neighbour };
    assert!(ask(&fixture, &reporter, TICKET).await.is_ok());
    assert!(score(&visitor(&fixture, "x", "203.0.113.9")).await >= SUSPICION_THRESHOLD);
}

#[tokio::test]
async fn refusals_that_instances_report_are_counted_unless_the_activity_has_no_gate() {
    let fixture = new_fixture("sqlite", 10, 5).await;
    let counts = vec![("refused:sold_out".to_owned(), 40), ("refused:ticket_invalid".to_owned(), 2)];
    let request = ReserveRequest { counts: counts.clone(), ..fixture.reservation(1, "ada", 1) };
    reserve(&fixture.redis, &request, false).await.unwrap();
    let reporter = Visitor { counts, ..visitor(&fixture, "calm", "192.0.2.1") };
    precheck(&fixture.redis, &reporter, TICKET).await.unwrap();
    let counted = stats(&fixture.redis, &fixture.activity).await.unwrap().expect("a gate").refusals;
    assert_eq!(counted, [("sold_out".to_owned(), 80), ("ticket_invalid".to_owned(), 4)].into());
    let fresh = new_fixture("sqlite", 10, 5).await;
    let reporter = Visitor { counts: reporter.counts.clone(), ..visitor(&fresh, "calm", "192.0.2.1") };
    precheck(&fresh.redis, &reporter, TICKET).await.unwrap();
    assert!(record_ttl(&fresh, &Keys::of(&fresh.activity).named("stats")).await > 0, "counters that never expire");

    let keys = Keys::of(&fixture.activity);
    let reporter = Visitor { counts: reporter.counts, ..visitor(&fixture, "calm", "192.0.2.1") };
    fixture.run_redis(&["DEL", &keys.named("gate"), &keys.named("stats")]).await;
    assert_eq!(ask(&fixture, &reporter, TICKET).await, Err((Code::NotReady, 0)));
    let reserved = reserve(&fixture.redis, &request, false).await.unwrap().outcome;
    assert_eq!(reserved, ReserveOutcome::Refused(Code::NotReady, 0));
    let left = fixture.run_redis(&["EXISTS", &keys.named("stats")]).await;
    assert_eq!(left, [RedisValue::Int(0)], "counters of no activity");
}

/// An attacker who shares an address with other visitors, or whose address the app cannot see, locks out no other visitor.
#[tokio::test]
async fn forged_tickets_of_an_address_never_refuse_a_valid_ticket_or_token() {
    let fixture = new_fixture("sqlite", 10, 5).await;
    let shared = "203.0.113.50";
    for (n, ip) in [shared, "unknown", "10.1.2.3", "127.0.0.1", "192.168.0.9", "0:0:0:0::/64", "fd00:1:2:3::/64"]
        .into_iter()
        .enumerate()
    {
        let flood = Visitor { counts: vec![(ip.to_owned(), 5_000)], ..visitor(&fixture, "calm", "198.51.100.1") };
        precheck(&fixture.redis, &flood, CHALLENGE).await.unwrap();
        let keys = Keys::of(&fixture.activity);
        let (ban, mark) = (keys.ip("ban", ip), keys.ip("suspect", ip));
        assert_eq!(fixture.run_redis(&["EXISTS", &ban]).await, [RedisValue::Int(0)], "{ip}");
        let marked = fixture.run_redis(&["EXISTS", &mark]).await;
        assert_eq!(marked, [RedisValue::Int(i64::from(ip == shared))], "{ip}");
        let request = ReserveRequest { ip: ip.to_owned(), ..fixture.reservation(n as u64, &format!("honest-{n}"), 1) };
        let outcome = reserve(&fixture.redis, &request, false).await.unwrap().outcome;
        assert!(matches!(outcome, ReserveOutcome::Queued(_)), "{ip}: {outcome:?}");
        let honest = visitor(&fixture, "honest", ip);
        assert!(ask(&fixture, &honest, TICKET).await.is_ok(), "{ip}");
    }
    // An operator's ban refuses both, and no report of abuse shortens it.
    let banned = visitor(&fixture, "mallory", "203.0.113.51");
    let far = Millis(4_000_000_000_000);
    bans::ban(&fixture.redis, &fixture.sql, &BanSubject::Ip(banned.ip.clone()), far, "a robot").await.unwrap();
    report_abuse(&fixture, &banned.ip, 600).await;
    assert_eq!(ask(&fixture, &banned, TICKET).await, Err((Code::Banned, 0)));
    let ends = fixture.run_redis(&["PEXPIRETIME", &Keys::of(&fixture.activity).ip("ban", &banned.ip)]).await;
    assert_eq!(ends, [RedisValue::Int(far.0)]);
}

#[tokio::test]
async fn new_reservations_are_refused_while_the_queue_is_longer_than_the_maximum_wait() {
    let fixture = new_fixture("sqlite", 10, 5).await;
    let stats = fixture.key("stats");
    // The maximum wait is 60 s. At 10 orders written a second, 600 may be queued.
    let set = |waiting: &str| {
        let args = ["enqueued", waiting, "written", "0", "rate", "10"];
        fixture
            .redis
            .command("HSET", [stats.clone()].into_iter().chain(args.map(str::to_owned)).map(Into::into).collect())
    };
    set("601").await.unwrap();
    let refused = fixture.reserve(1, "ada", 1).await.unwrap().outcome;
    assert_eq!(refused, ReserveOutcome::Refused(Code::Overloaded, 100));
    set("600").await.unwrap();
    assert_eq!(fixture.refusal(1, "ada", 1).await, None);
    // A repeated request of a queued order is answered again, however long the queue is.
    set("100000").await.unwrap();
    assert_eq!(fixture.refusal(1, "ada", 1).await, None);
    assert_eq!(fixture.units().await.0, 9);
}

#[tokio::test]
async fn a_start_that_moves_into_the_future_gets_a_new_start_key() {
    let fixture = new_fixture("sqlite", 10, 5).await;
    let operator = OperatorContext { nonce: "another".to_owned(), ..fixture.operator() };
    let spec = fixture.stored().await.spec;
    let put = async |starts_at: Millis| {
        let ends_at = Millis(spec.ends_at.0.max(starts_at.0 + 60_000));
        let moved = domain::activity::ActivitySpec { starts_at, ends_at, ..spec.clone() };
        let outcome = operator.put(&fixture.activity, moved, None).await.unwrap();
        let OperationOutcome::Done(activity) = outcome else { panic!("{outcome:?}") };
        activity.nonce
    };
    assert_ne!(put(spec.starts_at.plus(-1_000)).await, "another", "an earlier start, in the past");
    assert_eq!(put(operator.now.plus(600_000)).await, "another");
}

#[tokio::test]
async fn a_new_start_key_invalidates_the_old_one_at_once() {
    let fixture = new_fixture("sqlite", 10, 5).await;
    let operator = OperatorContext { nonce: "another".to_owned(), ..fixture.operator() };
    assert!(matches!(operator.rotate_start_key(&fixture.activity).await.unwrap(), OperationOutcome::Done(_)));
    let old = fixture.reserve(1, "ada", 1).await.unwrap();
    assert_eq!(old.outcome, ReserveOutcome::Refused(Code::StartKeyInvalid, 0));
    let key = domain::gate::start_key(crate::fixture::TICKET_SECRET, &fixture.activity, "another").unwrap();
    assert_eq!(old.gate.map(|gate| gate.start_key), Some(key));
    // Pausing the activity and publishing it again keep the new start key.
    for state in [ActivityState::Paused, ActivityState::Published] {
        fixture.set_state(state).await;
    }
    assert_eq!(fixture.reserve(1, "ada", 1).await.unwrap().outcome, ReserveOutcome::Refused(Code::StartKeyInvalid, 0));
}
