//! Tests of what happens to an order whose message is gone, or cannot be read (I1, I4, D4).

use domain::{activity::ActivityState, order::OrderStatus};
use operations::{commands::audit, upkeep::rebuild::RebuildOutcome};
use orders::{
    dead_letters,
    resend::{ResendReport, resend},
};
use stores::ports::RedisValue;

use crate::fixture::{LEDGERS, NOW, RealFixture, WHOLE_REBUILD, new_fixture};

async fn resend_all(fixture: &RealFixture) -> ResendReport {
    resend(&fixture.redis, &fixture.sql, &fixture.activity, NOW, usize::MAX).await.unwrap()
}

async fn audit_is_ok(fixture: &RealFixture) -> bool {
    audit::audit(&fixture.redis, &fixture.sql, &fixture.activity, 1).await.unwrap().unwrap().ok
}

/// The dead letters of the activity: the number in its order's, and the reason.
async fn letters(fixture: &RealFixture) -> Vec<(String, String)> {
    let letters = dead_letters::list(&fixture.sql, None, 200).await.unwrap().into_iter();
    letters
        .filter_map(|letter| {
            Some((letter.order_no.strip_prefix(&format!("{}.", fixture.activity))?.to_owned(), letter.reason))
        })
        .collect()
}

#[tokio::test]
async fn an_order_whose_message_is_lost_is_reported_and_sent_again() {
    for ledger in LEDGERS {
        for loss in [vec!["XTRIM", "MAXLEN", "0"], vec!["DEL"]] {
            for is_read in [false, true] {
                let fixture = new_fixture(ledger, 3, 1).await;
                fixture.reserve(1, "ada", 1).await.unwrap();
                let stream = fixture.key("orders");
                if is_read {
                    let read = ["GROUP", "writers", "writer", "STREAMS", &stream, ">"];
                    fixture.run_redis(&[&["XREADGROUP"][..], &read].concat()).await;
                }
                let (name, options) = loss.split_first().unwrap();
                fixture.run_redis(&[&[*name, &stream], options].concat()).await;
                let point = format!("{ledger}: {loss:?}, read before: {is_read}");
                assert!(!audit_is_ok(&fixture).await, "{point}");
                assert_eq!(fixture.write_batch().await.unwrap().messages, 0, "{point}");
                assert_eq!(resend_all(&fixture).await.resent, 1, "{point}");
                assert_eq!(resend_all(&fixture).await, ResendReport::default(), "{point}: it has a message");
                fixture.recover().await;
                fixture.assert_status(&fixture.order_no(1), OrderStatus::PendingPayment, &point).await;
                assert_eq!(fixture.units().await, (2, 1, 0), "{point}");
            }
        }
    }
}

#[tokio::test]
async fn a_message_that_a_writer_holds_while_it_is_lost_makes_one_order() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        fixture.reserve(1, "ada", 1).await.unwrap();
        let messages = orders::stream::read_new(&fixture.redis, &fixture.activity, 10).await.unwrap();
        fixture.run_redis(&["XTRIM", &fixture.key("orders"), "MAXLEN", "0"]).await;
        assert_eq!(resend_all(&fixture).await.resent, 1, "{ledger}");
        assert_eq!(messages.len(), 1, "{ledger}");
        for _ in 0..2 {
            fixture.recover().await;
            assert_eq!(fixture.units().await, (2, 1, 0), "{ledger}");
        }
        assert_eq!(fixture.run_redis(&["XLEN", &fixture.key("orders")]).await, [RedisValue::Int(0)], "{ledger}");
    }
}

#[tokio::test]
async fn a_rebuild_writes_an_order_whose_message_is_lost() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        fixture.reserve(1, "ada", 1).await.unwrap();
        fixture.run_redis(&["XTRIM", &fixture.key("orders"), "MAXLEN", "0"]).await;
        fixture.set_state(ActivityState::Paused).await;
        let rebuilt = fixture.rebuild(WHOLE_REBUILD).await.unwrap();
        assert_eq!(rebuilt, RebuildOutcome::Done { orders: 1, epoch: 2 }, "{ledger}");
        assert_eq!(fixture.units().await, (2, 1, 0), "{ledger}");
    }
}

#[tokio::test]
async fn whatever_is_in_the_stream_ends_acknowledged_under_its_own_id() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        let stream = fixture.key("orders");
        fixture.reserve(1, "ada", 1).await.unwrap();
        for entry in
            [&["x", "no order"][..], &["x", "o", "y", "z"], &["o", "nonsense"], &["x", "1", "o", "1\tno order"]]
        {
            fixture.run_redis(&[&["XADD", &stream, "*"], entry].concat()).await;
        }
        assert_eq!(fixture.write_batch().await.unwrap().written, 1, "{ledger}");
        assert_eq!(fixture.run_redis(&["XLEN", &stream]).await, [RedisValue::Int(0)], "{ledger}");
        let pending = fixture.run_redis(&["XPENDING", &stream, "writers"]).await;
        assert_eq!(pending[0], RedisValue::Int(0), "{ledger}: pending for ever");
        assert_eq!(letters(&fixture).await.len(), 4, "{ledger}");
        let kept = dead_letters::list(&fixture.sql, None, 200).await.unwrap();
        assert!(kept.iter().any(|letter| letter.message == "nonsense"), "{ledger}: {kept:?}");
    }
}

#[tokio::test]
async fn what_a_later_version_queued_waits_for_its_writers() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        let (stream, queued) = (fixture.key("orders"), fixture.key("queued"));
        let ulid = fixture.order_no(7).ulid().to_string();
        fixture.run_redis(&["XADD", &stream, "1-1", "o", "3\tsomething new"]).await;
        fixture.run_redis(&["HSET", &queued, &ulid, "1-1 3\tsomething new"]).await;
        let report = fixture.write_batch().await.unwrap();
        assert_eq!((report.newer, report.failed), (1, 0), "{ledger}");
        assert_eq!(fixture.refusal(7, "ada", 1).await, Some(domain::http::problem::Code::Overloaded), "{ledger}");
        fixture.set_state(ActivityState::Paused).await;
        assert_eq!(fixture.rebuild(WHOLE_REBUILD).await.unwrap(), RebuildOutcome::Queued, "{ledger}");
        fixture.run_redis(&["XDEL", &stream, "1-1"]).await;
        assert_eq!(resend_all(&fixture).await, ResendReport { newer: 1, ..ResendReport::default() }, "{ledger}");
        assert_eq!(fixture.run_redis(&["HLEN", &queued]).await, [RedisValue::Int(1)], "{ledger}");
        assert_eq!(letters(&fixture).await, [], "{ledger}");
    }
}

#[tokio::test]
async fn a_queued_order_that_cannot_be_read_becomes_a_dead_letter() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        let ulid = fixture.order_no(7).ulid().to_string();
        fixture.run_redis(&["HSET", &fixture.key("queued"), &ulid, "nonsense"]).await;
        assert!(!audit_is_ok(&fixture).await, "{ledger}");
        assert_eq!(resend_all(&fixture).await.unreadable, 1, "{ledger}");
        assert_eq!(letters(&fixture).await, [(ulid, "unreadable".to_owned())], "{ledger}");
        assert!(audit_is_ok(&fixture).await, "{ledger}");
    }
}

#[tokio::test]
async fn a_reservation_that_redis_stops_half_way_withholds_nothing() {
    for key in ["orders", "queued", "holders"] {
        let fixture = new_fixture("sqlite", 3, 1).await;
        fixture.run_redis(&["DEL", &fixture.key(key)]).await;
        fixture.run_redis(&["SET", &fixture.key(key), "of the wrong type"]).await;
        fixture.reserve(1, "ada", 1).await.unwrap_err();
        fixture.run_redis(&["DEL", &fixture.key(key)]).await;
        assert_eq!((fixture.units().await, fixture.held_by("ada").await), ((3, 0, 0), 0), "{key}");
        assert_eq!(fixture.refusal(1, "ada", 1).await, None, "{key}");
    }
}

#[tokio::test]
async fn units_that_no_order_holds_return_when_nothing_is_queued() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        fixture.reserve(1, "ada", 1).await.unwrap();
        for (field, by) in [("held:phone", "1"), ("left:phone", "-1")] {
            fixture.run_redis(&["HINCRBY", &fixture.key("stats"), field, by]).await;
        }
        assert!(!audit_is_ok(&fixture).await, "{ledger}");
        fixture.check_gates().await;
        assert_eq!(fixture.stock().await, 1, "{ledger}: an order is queued");
        fixture.recover().await;
        for _ in 0..2 {
            fixture.check_gates().await;
        }
        assert_eq!(fixture.units().await, (2, 1, 0), "{ledger}");
    }
}
