//! Tests of `lua/precheck.lua` and `lua/admit.lua`: rate limits, bans and human checks (B4, B5, B6).

use domain::{
    activity::{ActivityState, HumanCheck, Limit, Limits},
    http::problem::Code,
    human_check::CheckRecord,
    ids::UserId,
    time::Millis,
};
use operations::commands::{
    activities::OperationOutcome,
    bans::{self, BanSubject},
    stats::stats,
};
use payments::commands::CommandOutcome;
use sale::{
    admission::{CheckOutcome, Endpoint, MAX_OPEN_TICKETS, SUSPICION_THRESHOLD, Visitor, admit, precheck},
    ledger::activities,
    reserve::{ReserveOutcome, ReserveRequest, reserve},
};
use stores::{Redis, keys::Keys, ports::RedisValue};
use ulid::Ulid;

use crate::{
    fixture::{Fixture, NOW, new_fixture},
    stores::{RealLedger, RealRedis},
};

type RealFixture = Fixture<RealRedis, RealLedger>;

/// A request for a ticket.
const TICKET: Endpoint = Endpoint::Ticket(Ulid(0));
const CHALLENGE: Endpoint = Endpoint::Challenge(HumanCheck::Pow);

fn visitor(fixture: &RealFixture, user: &str, ip: &str) -> Visitor {
    let user = UserId::parse(user).unwrap();
    Visitor { activity: fixture.activity.clone(), user, ip: ip.to_owned(), counts: Vec::new() }
}

fn proof(id: &str) -> CheckRecord {
    CheckRecord { id: id.to_owned(), expires_at: NOW.plus(60_000) }
}

/// An activity that allows each user `count` requests a minute, and has no other limit.
async fn rate_limited(count: i64) -> RealFixture {
    with_limits(Limits { user: Some(Some(Limit { count, seconds: 60 })), ip: Some(None), all: Some(None) }).await
}

/// An activity with ten units, one per user.
async fn with_limits(limits: Limits) -> RealFixture {
    let fixture = new_fixture("sqlite", 10, 1).await;
    let mut spec = activities::load(&fixture.sql, &fixture.activity).await.unwrap().unwrap().spec;
    spec.limits = limits;
    assert!(matches!(fixture.operator().put(&fixture.activity, spec, None).await.unwrap(), OperationOutcome::Done(_)));
    fixture
}

#[tokio::test]
async fn too_many_requests_are_rate_limited_and_then_banned() {
    let fixture = rate_limited(5).await;
    let eager = visitor(&fixture, "eager", "192.0.2.1");
    let mut outcomes = Vec::new();
    for _ in 0..5 + 60 + 1 {
        outcomes.push(precheck(&fixture.redis, &eager, TICKET).await.unwrap().outcome);
    }
    assert_eq!(outcomes[..5], [Ok(0); 5]);
    assert!(
        outcomes[5..65].iter().all(|outcome| matches!(outcome, Err((Code::RateLimited, wait)) if *wait > 0)),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[65], Err((Code::Banned, 0)));
    // The ban refuses reservations too, and affects no other user.
    assert_eq!(fixture.reserve(1, "eager", 1).await.unwrap().outcome, ReserveOutcome::Refused(Code::Banned, 0));
    let neighbour = visitor(&fixture, "calm", "192.0.2.1");
    assert!(precheck(&fixture.redis, &neighbour, TICKET).await.unwrap().outcome.is_ok());
    // A ban expires, or an operator lifts it. The user's suspicion score stays high.
    bans::lift(&fixture.redis, &fixture.sql, &BanSubject::User(eager.user.clone())).await.unwrap();
    let score =
        precheck(&fixture.redis, &Visitor { ip: "192.0.2.9".to_owned(), ..eager }, CHALLENGE).await.unwrap().outcome;
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
        let _ = fixture.cancel(&order_no).await.unwrap();
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
        assert!(precheck(&fixture.redis, &hoarder, TICKET).await.unwrap().outcome.is_ok());
    }
    let refused = precheck(&fixture.redis, &hoarder, TICKET).await.unwrap().outcome;
    assert!(matches!(refused, Err((Code::RateLimited, wait)) if wait > 0), "{refused:?}");
    assert!(precheck(&fixture.redis, &hoarder, CHALLENGE).await.unwrap().outcome.is_ok());
    let other = visitor(&fixture, "other", "192.0.2.1");
    assert!(precheck(&fixture.redis, &other, TICKET).await.unwrap().outcome.is_ok());
}

#[tokio::test]
async fn challenges_tickets_and_reservations_have_separate_rate_limits() {
    let fixture = rate_limited(1).await;
    let ada = visitor(&fixture, "ada", "192.0.2.1");
    for endpoint in [CHALLENGE, TICKET] {
        assert!(precheck(&fixture.redis, &ada, endpoint).await.unwrap().outcome.is_ok(), "{endpoint:?}");
        let again = precheck(&fixture.redis, &ada, endpoint).await.unwrap();
        assert!(matches!(again.outcome, Err((Code::RateLimited, _))), "{endpoint:?}: {again:?}");
        assert_eq!((again.rate_limits[0].name.as_str(), again.rate_limits[0].remaining), ("user", 0));
    }
    assert!(matches!(fixture.reserve(1, "ada", 1).await.unwrap().outcome, ReserveOutcome::Queued(_)));
}

#[tokio::test]
async fn concurrent_uses_of_one_human_check_count_once() {
    let fixture = new_fixture("sqlite", 10, 1).await;
    let ada = visitor(&fixture, "ada", "192.0.2.1");
    let passed = CheckOutcome::Passed(proof("one"));
    let attempts = futures::future::join_all((0..5).map(|n| admit(&fixture.redis, &ada, &passed, Ulid(n), NOW))).await;
    assert_eq!(attempts.into_iter().filter(|admitted| admitted.as_ref().unwrap().is_ok()).count(), 1);
    // A check that failed once cannot be passed later.
    assert!(
        admit(&fixture.redis, &ada, &CheckOutcome::Failed(Some(proof("two"))), Ulid(6), NOW).await.unwrap().is_err()
    );
    assert!(admit(&fixture.redis, &ada, &CheckOutcome::Passed(proof("two")), Ulid(7), NOW).await.unwrap().is_err());
}

/// Redis ran the script, its reply was lost, and the same request runs it again.
#[tokio::test]
async fn a_human_check_whose_reply_was_lost_counts_once() {
    let fixture = new_fixture("sqlite", 10, 1).await;
    let ada = visitor(&fixture, "ada", "192.0.2.1");
    let failed = ["one", "two"].map(|id| CheckOutcome::Failed(Some(proof(id))));
    for (n, outcome) in failed.into_iter().chain([CheckOutcome::Failed(None)]).enumerate() {
        for _ in 0..2 {
            assert!(admit(&fixture.redis, &ada, &outcome, Ulid(n as u128), NOW).await.unwrap().is_err(), "{outcome:?}");
        }
    }
    for _ in 0..2 {
        assert!(
            admit(&fixture.redis, &ada, &CheckOutcome::Passed(proof("three")), Ulid(9), NOW).await.unwrap().is_ok()
        );
    }
    let abuse = vec![Keys::of(&fixture.activity).abuse_user(&ada.user).into(), "count".into()];
    assert_eq!(fixture.redis.command("HGET", abuse).await.unwrap(), [RedisValue::Bytes("30".into())]);
}

#[tokio::test]
async fn six_failed_human_checks_lead_to_a_ban() {
    let fixture = new_fixture("sqlite", 10, 1).await;
    let robot = visitor(&fixture, "robot", "192.0.2.1");
    for guess in 0..6 {
        assert!(precheck(&fixture.redis, &robot, TICKET).await.unwrap().outcome.is_ok(), "guess {guess}");
        let wrong = CheckOutcome::Failed(Some(proof(&guess.to_string())));
        assert!(admit(&fixture.redis, &robot, &wrong, Ulid(guess), NOW).await.unwrap().is_err());
    }
    assert_eq!(precheck(&fixture.redis, &robot, TICKET).await.unwrap().outcome, Err((Code::Banned, 0)));
}

/// A /48 has 65,536 networks that each count as an address: one costs no more than the other.
#[tokio::test]
async fn an_ipv6_site_gets_four_times_the_tickets_of_an_address() {
    let fixture = new_fixture("sqlite", 10, 1).await;
    let mut spec = activities::load(&fixture.sql, &fixture.activity).await.unwrap().unwrap().spec;
    spec.limits = Limits { user: None, ip: Some(Some(Limit { count: 5, seconds: 3_600 })), all: None };
    assert!(matches!(fixture.operator().put(&fixture.activity, spec, None).await.unwrap(), OperationOutcome::Done(_)));
    let passed = async |endpoint: Endpoint, addresses: Vec<String>| {
        let mut passed = 0;
        for (index, address) in addresses.iter().enumerate() {
            let visitor = visitor(&fixture, &format!("{address}-{index}").replace([':', '/'], "_"), address);
            passed += usize::from(precheck(&fixture.redis, &visitor, endpoint).await.unwrap().outcome.is_ok());
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

/// A blind guess at a puzzle passes now and then: guessing slowly must not pay either.
#[tokio::test]
async fn slow_guesses_at_human_checks_lead_to_a_ban() {
    let fixture = new_fixture("sqlite", 10, 1).await;
    let robot = visitor(&fixture, "robot", "192.0.2.1");
    for guess in 0..10 {
        assert!(precheck(&fixture.redis, &robot, TICKET).await.unwrap().outcome.is_ok(), "guess {guess}");
        let wrong = CheckOutcome::Failed(Some(proof(&format!("slow-{guess}"))));
        assert!(admit(&fixture.redis, &robot, &wrong, Ulid(100 + guess), NOW).await.unwrap().is_err());
        // More than a minute passes: the points of the minute begin anew.
        let abuse = vec![Keys::of(&fixture.activity).abuse_user(&robot.user).into(), "since".into(), "0".into()];
        fixture.redis.command("HSET", abuse).await.unwrap();
    }
    assert_eq!(precheck(&fixture.redis, &robot, TICKET).await.unwrap().outcome, Err((Code::Banned, 0)));
    // As long as tickets are issued before a start: ten guesses are all that an account has.
    let ban = vec![Keys::of(&fixture.activity).ban_user(&robot.user).into()];
    let left = fixture.redis.command("PTTL", ban).await.unwrap();
    assert!(matches!(left[..], [RedisValue::Int(1_790_000..=1_800_000)]), "{left:?}");
    assert!(record_ttl(&fixture, &Keys::of(&fixture.activity).abuse_user(&robot.user)).await > 86_000_000);
}

/// Each of these requests passed `precheck` before the first answer was judged.
#[tokio::test]
async fn guesses_at_human_checks_that_are_sent_at_once_are_as_few_as_slow_ones() {
    let fixture = new_fixture("sqlite", 10, 1).await;
    let robot = visitor(&fixture, "robot", "192.0.2.1");
    for _ in 0..20 {
        assert!(precheck(&fixture.redis, &robot, TICKET).await.unwrap().outcome.is_ok());
    }
    let answer = async |n: u128, outcome: CheckOutcome| {
        admit(&fixture.redis, &robot, &outcome, Ulid(n), NOW).await.unwrap().unwrap_err()
    };
    let proofs = |n: u128| Some(proof(&format!("burst-{n}")));
    let mut codes = Vec::new();
    for n in 0..20 {
        codes.push(answer(n, CheckOutcome::Failed(proofs(n))).await);
    }
    assert_eq!(codes[..6], [Code::HumanCheckFailed; 6]);
    assert_eq!(codes[6..], [Code::Banned; 14]);
    assert_eq!(answer(20, CheckOutcome::Passed(proof("right"))).await, Code::Banned, "a right answer comes too late");
    // The ban of the fast guesses ends, and four more are judged: the last one leads to the long ban.
    let keys = Keys::of(&fixture.activity);
    let (ban, abuse) = (keys.ban_user(&robot.user), keys.abuse_user(&robot.user));
    fixture.redis.command("DEL", vec![ban.clone().into()]).await.unwrap();
    // Of these, the points of a minute would lead to the short one.
    fixture.redis.command("HSET", vec![abuse.into(), "count".into(), "20".into()]).await.unwrap();
    for n in 21..25 {
        assert_eq!(answer(n, CheckOutcome::Failed(proofs(n))).await, Code::HumanCheckFailed);
    }
    let left = fixture.redis.command("PTTL", vec![ban.into()]).await.unwrap();
    assert!(matches!(left[..], [RedisValue::Int(1_790_000..=1_800_000)]), "{left:?}");
}

/// How long a record of abuse is kept, in milliseconds.
async fn record_ttl(fixture: &RealFixture, key: &str) -> i64 {
    match fixture.redis.command("PTTL", vec![key.into()]).await.unwrap()[..] {
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
    let left = record_ttl(&fixture, &keys.abuse_user(&eager.user)).await;
    assert!((1_790_000..=1_800_000).contains(&left), "{left}");
}

/// Reports forged tickets of an address with the request of another visitor.
async fn report_abuse(fixture: &RealFixture, ip: &str, number: i64) {
    let reporter = Visitor { counts: vec![(ip.to_owned(), number)], ..visitor(fixture, "reporter", "192.0.2.1") };
    assert!(precheck(&fixture.redis, &reporter, CHALLENGE).await.unwrap().outcome.is_ok());
}

/// An attacker behind the address of a carrier makes its customers solve checks for a minute at most.
#[tokio::test]
async fn neighbours_of_an_abuser_are_suspicious_only_while_their_address_is_marked() {
    let fixture = new_fixture("sqlite", 10, 1).await;
    for ip in ["203.0.113.70", "10.1.2.3"] {
        let neighbour = visitor(&fixture, "calm", ip);
        let score =
            async || precheck(&fixture.redis, &neighbour, CHALLENGE).await.unwrap().outcome.expect("no refusal");
        report_abuse(&fixture, ip, 599).await;
        assert_eq!(score().await, 0, "{ip}: not marked yet");
        for _ in 0..5 {
            report_abuse(&fixture, ip, 600).await;
            // The mark's minute passes.
            let mark = Keys::of(&fixture.activity).named(&format!("suspect:ip:{ip}"));
            fixture.redis.command("DEL", vec![mark.into()]).await.unwrap();
        }
        assert_eq!(score().await, 0, "{ip}: not marked any more");
    }
}

/// A slider's picture takes as long to draw as several reservations.
#[tokio::test]
async fn a_user_cannot_order_pictures_without_end() {
    for user in [None, Some(None)] {
        let fixture = with_limits(Limits { user, ip: Some(None), all: Some(None) }).await;
        let robot = visitor(&fixture, "robot", "203.0.113.71");
        let order = async |kind| {
            let challenge = Endpoint::Challenge(kind);
            precheck(&fixture.redis, &robot, challenge).await.unwrap().outcome
        };
        for n in 0..10 {
            assert_eq!(order(HumanCheck::Captcha).await, Ok(0), "{n}");
        }
        let refused = order(HumanCheck::Captcha).await;
        assert!(matches!(refused, Err((Code::RateLimited, 1..=10_000))), "{refused:?}");
        assert_eq!(order(HumanCheck::Pow).await, Ok(0), "other checks are cheap");
        let other = visitor(&fixture, "calm", "203.0.113.71");
        let picture = Endpoint::Challenge(HumanCheck::Captcha);
        assert_eq!(precheck(&fixture.redis, &other, picture).await.unwrap().outcome, Ok(0));
    }
}

#[tokio::test]
async fn invalid_tickets_are_reported_with_the_next_valid_request_and_make_only_their_address_suspicious() {
    let fixture = new_fixture("sqlite", 10, 5).await;
    let reporting = |abused: i64, n: u64| ReserveRequest {
        order_no: fixture.order_no(n),
        user: UserId::parse("ada").unwrap(),
        sku: fixture.sku.clone(),
        quantity: 1,
        start_key: fixture.start_key.clone(),
        ip: "192.0.2.1".to_owned(),
        decide_until: Millis(i64::MAX),
        counts: vec![("203.0.113.7".to_owned(), abused), ("203.0.113.8".to_owned(), 1)],
    };
    let robot = visitor(&fixture, "robot", "203.0.113.7");
    assert!(matches!(
        reserve(&fixture.redis, &reporting(599, 1), false).await.unwrap().outcome,
        ReserveOutcome::Queued(_)
    ));
    assert!(precheck(&fixture.redis, &robot, TICKET).await.unwrap().outcome.is_ok());
    assert!(matches!(
        reserve(&fixture.redis, &reporting(1, 2), false).await.unwrap().outcome,
        ReserveOutcome::Queued(_)
    ));
    let score =
        async |visitor: &Visitor| precheck(&fixture.redis, visitor, TICKET).await.unwrap().outcome.expect("no refusal");
    assert!(score(&robot).await >= SUSPICION_THRESHOLD);
    let neighbour = visitor(&fixture, "calm", "203.0.113.8");
    assert!(score(&neighbour).await < SUSPICION_THRESHOLD);
    // A request for a ticket reports invalid tickets too.
    let reporter = Visitor { counts: vec![("203.0.113.9".to_owned(), 600)], ..neighbour };
    assert!(precheck(&fixture.redis, &reporter, TICKET).await.unwrap().outcome.is_ok());
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
    fixture.redis.command("DEL", vec![keys.named("gate").into(), keys.named("stats").into()]).await.unwrap();
    assert_eq!(precheck(&fixture.redis, &reporter, TICKET).await.unwrap().outcome, Err((Code::NotReady, 0)));
    assert_eq!(
        reserve(&fixture.redis, &request, false).await.unwrap().outcome,
        ReserveOutcome::Refused(Code::NotReady, 0)
    );
    let left = fixture.redis.command("EXISTS", vec![keys.named("stats").into()]).await.unwrap();
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
        let (ban, mark) = (keys.ban_ip(ip), keys.named(&format!("suspect:ip:{ip}")));
        assert_eq!(fixture.redis.command("EXISTS", vec![ban.into()]).await.unwrap(), [RedisValue::Int(0)], "{ip}");
        let marked = fixture.redis.command("EXISTS", vec![mark.into()]).await.unwrap();
        assert_eq!(marked, [RedisValue::Int(i64::from(ip == shared))], "{ip}");
        let request = ReserveRequest {
            order_no: fixture.order_no(n as u64),
            user: UserId::parse(&format!("honest-{n}")).unwrap(),
            sku: fixture.sku.clone(),
            quantity: 1,
            start_key: fixture.start_key.clone(),
            ip: ip.to_owned(),
            decide_until: Millis(i64::MAX),
            counts: Vec::new(),
        };
        let outcome = reserve(&fixture.redis, &request, false).await.unwrap().outcome;
        assert!(matches!(outcome, ReserveOutcome::Queued(_)), "{ip}: {outcome:?}");
        let honest = visitor(&fixture, "honest", ip);
        assert!(precheck(&fixture.redis, &honest, TICKET).await.unwrap().outcome.is_ok(), "{ip}");
    }
    // An operator's ban refuses both.
    let banned = visitor(&fixture, "mallory", "203.0.113.51");
    let far = Millis(4_000_000_000_000);
    bans::ban(&fixture.redis, &fixture.sql, &BanSubject::Ip(banned.ip.clone()), far, "a robot").await.unwrap();
    assert_eq!(precheck(&fixture.redis, &banned, TICKET).await.unwrap().outcome, Err((Code::Banned, 0)));
}

#[tokio::test]
async fn an_automatic_ban_does_not_shorten_an_operators_ban() {
    let fixture = new_fixture("sqlite", 10, 5).await;
    // No other test uses this address: an operator's ban applies to every activity in the shared Redis.
    let robot = visitor(&fixture, "robot", "198.51.100.77");
    let far = Millis(4_000_000_000_000);
    bans::ban(&fixture.redis, &fixture.sql, &BanSubject::Ip(robot.ip.clone()), far, "a robot").await.unwrap();
    let reporter = Visitor { counts: vec![(robot.ip.clone(), 600)], ..visitor(&fixture, "calm", "192.0.2.1") };
    precheck(&fixture.redis, &reporter, TICKET).await.unwrap();
    let key = stores::keys::Keys::of(&fixture.activity).ban_ip(&robot.ip);
    let ends = fixture.redis.command("PEXPIRETIME", vec![key.into()]).await.unwrap();
    assert_eq!(ends, [stores::ports::RedisValue::Int(far.0)]);
}

#[tokio::test]
async fn new_reservations_are_refused_while_the_queue_is_longer_than_the_maximum_wait() {
    let fixture = new_fixture("sqlite", 10, 5).await;
    let stats = stores::keys::Keys::of(&fixture.activity).named("stats");
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
    assert!(matches!(fixture.reserve(1, "ada", 1).await.unwrap().outcome, ReserveOutcome::Queued(_)));
    // A repeated request of a queued order is answered again, however long the queue is.
    set("100000").await.unwrap();
    assert!(matches!(fixture.reserve(1, "ada", 1).await.unwrap().outcome, ReserveOutcome::Queued(_)));
    assert_eq!(fixture.units().await.0, 9);
}

#[tokio::test]
async fn a_start_that_moves_into_the_future_gets_a_new_start_key() {
    let fixture = new_fixture("sqlite", 10, 5).await;
    let operator =
        operations::commands::activities::OperatorContext { nonce: "another".to_owned(), ..fixture.operator() };
    let spec = activities::load(&fixture.sql, &fixture.activity).await.unwrap().unwrap().spec;
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
    let operator =
        operations::commands::activities::OperatorContext { nonce: "another".to_owned(), ..fixture.operator() };
    assert!(matches!(operator.rotate_start_key(&fixture.activity).await.unwrap(), OperationOutcome::Done(_)));
    let old = fixture.reserve(1, "ada", 1).await.unwrap();
    assert_eq!(old.outcome, ReserveOutcome::Refused(Code::StartKeyInvalid, 0));
    let key = domain::gate::start_key(crate::fixture::TICKET_SECRET, &fixture.activity, "another").unwrap();
    assert_eq!(old.gate.map(|gate| gate.start_key), Some(key));
    // Pausing the activity and publishing it again keep the new start key.
    for state in [ActivityState::Paused, ActivityState::Published] {
        fixture.operator().set_state(&fixture.activity, state).await.unwrap();
    }
    assert_eq!(fixture.reserve(1, "ada", 1).await.unwrap().outcome, ReserveOutcome::Refused(Code::StartKeyInvalid, 0));
}
