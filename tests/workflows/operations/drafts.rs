//! Tests of drafts: deleted, published, resumed (C7, C9).

use std::cell::Cell;

use domain::{activity::ActivityState, ids::ActivityId};
use futures::future::join;
use operations::commands::activities::{DeleteOutcome, OperationOutcome, OperatorContext, delete_draft};
use orders::dead_letters;
use sale::ledger::activities::{self, Activity};
use stores::{Sql, ports::SqlValue};

use crate::{
    at_every_call::at_every_call,
    fixture::{LEDGERS, NOW, commit_when_blocking, new_fixture, open_connection},
    operations::{epochs::pause, operators::agreed_state_and_total},
};

#[tokio::test]
async fn a_draft_is_deleted_and_an_activity_that_was_published_is_not() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 5).await;
        let published = delete_draft(&fixture.sql, &fixture.activity).await.unwrap();
        assert!(matches!(published, DeleteOutcome::Conflict(_)), "{ledger}: {published:?}");
        let spec = fixture.stored().await.spec;
        let draft = ActivityId::parse(&format!("{}-draft", fixture.activity)).unwrap();
        for _ in 0..2 {
            let saved = fixture.operator().put(&draft, spec.clone(), Some(0)).await.unwrap();
            assert!(matches!(saved, OperationOutcome::Done(_)), "{ledger}: its id is free again");
            assert_eq!(delete_draft(&fixture.sql, &draft).await.unwrap(), DeleteOutcome::Deleted, "{ledger}");
            assert_eq!(delete_draft(&fixture.sql, &draft).await.unwrap(), DeleteOutcome::NotFound, "{ledger}");
        }
        fixture.operator().put(&draft, spec, Some(0)).await.unwrap();
        let letter = (format!("{draft}.01"), "of an earlier sale of that name".to_owned(), "undeliverable");
        dead_letters::record(&fixture.sql, std::slice::from_ref(&letter), NOW).await.unwrap();
        assert_eq!(delete_draft(&fixture.sql, &draft).await.unwrap(), DeleteOutcome::Deleted, "{ledger}");
        assert_eq!(dead_letters::list(&fixture.sql, None, 2).await.unwrap().len(), 1, "{ledger}");
        let skus = fixture.sql.run("SELECT activity FROM skus", Vec::new()).await.unwrap();
        assert_eq!(skus, [[SqlValue::Text(fixture.activity.to_string())]], "{ledger}");
    }
}

#[tokio::test]
async fn a_draft_that_has_orders_is_not_deleted() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 5).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        // The ledger came back from a backup of the time before the sale was published, and queued orders were written.
        fixture.sql.run("UPDATE activities SET state = 'draft'", Vec::new()).await.unwrap();
        let refused = delete_draft(&fixture.sql, &fixture.activity).await.unwrap();
        assert!(matches!(refused, DeleteOutcome::Conflict(_)), "{ledger}: {refused:?}");
        assert!(activities::load(&fixture.sql, &fixture.activity).await.unwrap().is_some(), "{ledger}");
        assert!(fixture.ledger_status(&order_no).await.is_some(), "{ledger}");
        // Published as ended, which sells nothing, it is seen by sweeps.
        let now = fixture.stored().await.spec.ends_at;
        let operator = OperatorContext { now, ..fixture.operator() };
        let published = operator.set_state(&fixture.activity, ActivityState::Published).await.unwrap();
        assert!(!matches!(published, OperationOutcome::Conflict(_)), "{ledger}: {published:?}");
    }
}

/// PostgreSQL only: SQLite has one writer.
#[tokio::test]
async fn a_draft_is_not_published_while_it_is_being_deleted() {
    let fixture = new_fixture("postgres", 10, 5).await;
    fixture.sql.run("UPDATE activities SET state = 'draft'", Vec::new()).await.unwrap();
    let draft = fixture.stored().await;
    let published = Activity { state: ActivityState::Published, version: draft.version + 1, ..draft.clone() };
    let other = open_connection(&fixture).await;
    other.run("BEGIN", Vec::new()).await.unwrap();
    assert_eq!(delete_draft(&other, &fixture.activity).await.unwrap(), DeleteOutcome::Deleted);
    // The change waits for the deletion.
    let saving = activities::save(&fixture.sql, &published, Some(&draft), NOW);
    let (saved, ()) = join(saving, commit_when_blocking(&other)).await;
    assert!(!saved.unwrap());
    assert_eq!(activities::load(&fixture.sql, &fixture.activity).await.unwrap(), None);
}

#[tokio::test]
async fn a_draft_is_either_deleted_or_published() {
    let deleted = Cell::new(false);
    at_every_call(
        async |ledger| {
            let mut fixture = new_fixture(ledger, 10, 5).await;
            let spec = fixture.stored().await.spec;
            fixture.activity = ActivityId::parse(&format!("{}-draft", fixture.activity)).unwrap();
            fixture.operator().put(&fixture.activity, spec, None).await.unwrap();
            fixture
        },
        async |_, sql, fixture| {
            deleted.set(delete_draft(sql, &fixture.activity).await.unwrap() == DeleteOutcome::Deleted);
        },
        async |fixture| {
            fixture.set_state(ActivityState::Published).await;
        },
        async |fixture, point| {
            let left = activities::load(&fixture.sql, &fixture.activity).await.unwrap();
            assert_eq!(left.map(|left| left.state), (!deleted.get()).then_some(ActivityState::Published), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_draft_cannot_be_resumed() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 4, 1).await;
        let (operator, draft) = (fixture.operator(), ActivityId::parse("half-written").unwrap());
        let load = async |id| activities::load(&fixture.sql, id).await.unwrap().unwrap();
        operator.put(&draft, load(&fixture.activity).await.spec, None).await.unwrap();
        assert!(matches!(operator.resume(&draft).await.unwrap(), OperationOutcome::Conflict(_)), "{ledger}");
        assert_eq!(load(&draft).await.state, ActivityState::Draft, "{ledger}");
        pause(&fixture).await;
        assert!(matches!(operator.resume(&fixture.activity).await.unwrap(), OperationOutcome::Done(_)), "{ledger}");
        assert_eq!(agreed_state_and_total(&fixture, ledger).await.0, ActivityState::Published);
    }
}
