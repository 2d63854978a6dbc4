//! Tests of `lua/admit.lua`: each human check counts once, and guesses lead to a ban (B5).

use domain::{
    activity::{HumanCheck, Limits},
    http::problem::Code,
    human_check::CheckRecord,
};
use sale::admission::{
    CheckOutcome::{self, Failed, Passed},
    Endpoint, Visitor, admit,
};
use stores::{keys::Keys, ports::RedisValue};
use ulid::Ulid;

use crate::{
    fixture::{NOW, RealFixture, new_fixture},
    sale::admission::{TICKET, ask, record_ttl, visitor, with_limits},
};

/// How long the ban of slow guesses lasts, in milliseconds: half an hour.
const LONG_BAN: std::ops::RangeInclusive<i64> = 1_790_000..=1_800_000;

fn proof(id: &str) -> CheckRecord {
    CheckRecord { id: id.to_owned(), expires_at: NOW.plus(60_000) }
}

/// Counts the outcome of a check in a request with ticket `n`. Returns the refusal.
async fn judge(fixture: &RealFixture, visitor: &Visitor, outcome: &CheckOutcome, n: u128) -> Option<Code> {
    admit(&fixture.redis, visitor, outcome, Ulid(n), NOW).await.unwrap().err()
}

#[tokio::test]
async fn concurrent_uses_of_one_human_check_count_once() {
    let fixture = new_fixture("sqlite", 10, 1).await;
    let ada = visitor(&fixture, "ada", "192.0.2.1");
    let passed = Passed(proof("one"));
    let refusals = futures::future::join_all((0..5).map(|n| judge(&fixture, &ada, &passed, n))).await;
    assert_eq!(refusals.into_iter().filter(Option::is_none).count(), 1);
    // A check that failed once cannot be passed later.
    for (n, outcome) in [(6, Failed(Some(proof("two")))), (7, Passed(proof("two")))] {
        assert!(judge(&fixture, &ada, &outcome, n).await.is_some(), "{outcome:?}");
    }
}

/// Redis ran the script, its reply was lost, and the same request runs it again.
#[tokio::test]
async fn a_human_check_whose_reply_was_lost_counts_once() {
    let fixture = new_fixture("sqlite", 10, 1).await;
    let ada = visitor(&fixture, "ada", "192.0.2.1");
    let outcomes = [Failed(Some(proof("one"))), Failed(Some(proof("two"))), Failed(None), Passed(proof("three"))];
    for (n, outcome) in outcomes.into_iter().enumerate() {
        for _ in 0..2 {
            let refusal = judge(&fixture, &ada, &outcome, n as u128).await;
            assert_eq!(refusal.is_none(), matches!(outcome, Passed(_)), "{outcome:?}");
        }
    }
    let points = fixture.run_redis(&["HGET", &Keys::of(&fixture.activity).user("abuse", &ada.user), "count"]).await;
    assert_eq!(points, [RedisValue::Bytes("30".into())]);
}

/// Six guesses in a minute lead to a ban. A blind guess at a puzzle passes now and then, so ten slow ones lead to a long one:
/// as long as tickets are issued before a start, ten guesses are all that an account has.
#[tokio::test]
async fn failed_human_checks_lead_to_a_ban_fast_or_slow() {
    for (guesses, is_slow) in [(6, false), (10, true)] {
        let fixture = new_fixture("sqlite", 10, 1).await;
        let robot = visitor(&fixture, "robot", "192.0.2.1");
        let keys = Keys::of(&fixture.activity);
        for n in 0..guesses {
            assert!(ask(&fixture, &robot, TICKET).await.is_ok(), "guess {n}");
            assert!(judge(&fixture, &robot, &Failed(Some(proof(&n.to_string()))), n).await.is_some());
            if is_slow {
                // More than a minute passes: the points of the minute begin anew.
                fixture.run_redis(&["HSET", &keys.user("abuse", &robot.user), "since", "0"]).await;
            }
        }
        assert_eq!(ask(&fixture, &robot, TICKET).await, Err((Code::Banned, 0)));
        if is_slow {
            assert!(LONG_BAN.contains(&record_ttl(&fixture, &keys.user("ban", &robot.user)).await));
            assert!(record_ttl(&fixture, &keys.user("abuse", &robot.user)).await > 86_000_000);
        }
    }
}

/// Each of these requests passed `precheck` before the first answer was judged.
#[tokio::test]
async fn guesses_at_human_checks_that_are_sent_at_once_are_as_few_as_slow_ones() {
    let fixture = new_fixture("sqlite", 10, 1).await;
    let robot = visitor(&fixture, "robot", "192.0.2.1");
    for _ in 0..20 {
        assert!(ask(&fixture, &robot, TICKET).await.is_ok());
    }
    let guess = async |n: u128| judge(&fixture, &robot, &Failed(Some(proof(&format!("burst-{n}")))), n).await;
    for n in 0..20 {
        assert_eq!(guess(n).await, Some(if n < 6 { Code::HumanCheckFailed } else { Code::Banned }), "{n}");
    }
    let late = judge(&fixture, &robot, &Passed(proof("right")), 20).await;
    assert_eq!(late, Some(Code::Banned), "a right answer comes too late");
    // The ban of the fast guesses ends, and four more are judged: the last one leads to the long ban.
    let keys = Keys::of(&fixture.activity);
    fixture.run_redis(&["DEL", &keys.user("ban", &robot.user)]).await;
    // Of these, the points of a minute would lead to the short one.
    fixture.run_redis(&["HSET", &keys.user("abuse", &robot.user), "count", "20"]).await;
    for n in 21..25 {
        assert_eq!(guess(n).await, Some(Code::HumanCheckFailed));
    }
    assert!(LONG_BAN.contains(&record_ttl(&fixture, &keys.user("ban", &robot.user)).await));
}

/// A slider's picture takes as long to draw as several reservations.
#[tokio::test]
async fn a_user_cannot_order_pictures_without_end() {
    for user in [None, Some(None)] {
        let fixture = with_limits(Limits { user, ip: Some(None), all: Some(None) }).await;
        let robot = visitor(&fixture, "robot", "203.0.113.71");
        let order = async |kind| ask(&fixture, &robot, Endpoint::Challenge(kind)).await;
        for n in 0..10 {
            assert_eq!(order(HumanCheck::Captcha).await, Ok(0), "{n}");
        }
        let refused = order(HumanCheck::Captcha).await;
        assert!(matches!(refused, Err((Code::RateLimited, 1..=10_000))), "{refused:?}");
        assert_eq!(order(HumanCheck::Pow).await, Ok(0), "other checks are cheap");
        let other = visitor(&fixture, "calm", "203.0.113.71");
        assert_eq!(ask(&fixture, &other, Endpoint::Challenge(HumanCheck::Captcha)).await, Ok(0));
    }
}

#[tokio::test]
async fn each_tenth_wrong_presale_code_counts_as_a_failed_check() {
    let fixture = new_fixture("sqlite", 10, 1).await;
    let guesser = visitor(&fixture, "guesser", "192.0.2.1");
    let abuse = Keys::of(&fixture.activity).user("abuse", &guesser.user);
    for n in 1..=20 {
        // The reply of each is lost once.
        for _ in 0..2 {
            let refusal = judge(&fixture, &guesser, &CheckOutcome::WrongCode, n).await;
            assert!(matches!(refusal, Some(Code::NotEligible | Code::HumanCheckFailed)), "{n}: {refusal:?}");
        }
        let points = if n < 10 { RedisValue::Nil } else { RedisValue::Bytes((n / 10 * 10).to_string().into()) };
        assert_eq!(fixture.run_redis(&["HGET", &abuse, "count"]).await, [points], "{n}");
    }
    assert!(record_ttl(&fixture, &abuse).await > 0);
}
