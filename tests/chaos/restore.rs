//! Loses all stores and settings in the middle of a sale, and restores them by the scripts of deploy/backup
//! (G19; I1, I2, I3, I4, I6).

mod installation;

use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Mutex, time::Instant};

use dev::{documents::commands, postgres::Postgres, root};
use futures::{StreamExt, future::join_all, join, stream};
use reqwest::Method;
use serde_json::{Value, json};
use support::{Buyer, Patroni, TestActivity, TestApp, activity::single_sku, eventually};
use tempfile::TempDir;
use tokio::{sync::Semaphore, task::block_in_place};

use self::installation::{Installation, Stores};

/// Purchases before, during and after the backup.
const PURCHASES: [usize; 3] = [20, 40, 20];
/// Those after the time that PostgreSQL is recovered to.
const LATE_PURCHASES: usize = 10;
const UNITS: usize = 100;
const BUYERS: usize = 110;

/// What a buyer got, and when.
struct Purchase<'a> {
    buyer: &'a Buyer,
    order_no: String,
    sent_at: Instant,
    accepted_at: Instant,
    /// The provider's callback, and when it was confirmed.
    payment: Option<(Value, Instant)>,
}

impl Purchase<'_> {
    fn callback_id(&self) -> String {
        format!("evt-{}", self.order_no)
    }

    async fn send_callback(&self, app: &TestApp) {
        if let Some((body, _)) = &self.payment {
            app.send_callback(&self.callback_id(), body).await.is(204);
        }
    }
}

/// Orders accepted until the first time are restored, those sent after the second are lost.
struct Kept(Instant, Instant);

/// Reserves, and pays if the provider's `callback` is to be sent.
async fn buy<'a>(app: &TestApp, activity: &TestActivity, buyer: &'a Buyer, pays: bool) -> Purchase<'a> {
    let sent_at = Instant::now();
    let order_no = app.reserve(activity, buyer, "a", 1).await.is(202).text("order_no");
    let mut purchase = Purchase { buyer, order_no, sent_at, accepted_at: Instant::now(), payment: None };
    if pays {
        app.wait_for_status(&purchase.order_no, &buyer.ticket, "pending_payment").await;
        let session = app.open_session(&purchase.order_no, &buyer.jwt).await;
        let body = TestApp::callback_body("payment.succeeded", &purchase.order_no, &session);
        app.send_callback(&purchase.callback_id(), &body).await.is(204);
        purchase.payment = Some((body, Instant::now()));
    }
    purchase
}

/// Sells while `back_up` runs, and after it. Returns its result, and the purchases.
async fn sell_during<'a, T>(
    app: &TestApp,
    activity: &TestActivity,
    buyers: &'a [Buyer],
    back_up: impl AsyncFnOnce() -> T,
) -> (T, Vec<Purchase<'a>>) {
    let (permits, purchases) = (Semaphore::new(PURCHASES[0]), Mutex::new(vec![]));
    let count = PURCHASES.iter().sum();
    let sell = stream::iter(buyers[..count].iter().enumerate()).for_each_concurrent(8, async |(index, buyer)| {
        permits.acquire().await.expect("a permit").forget();
        let purchase = buy(app, activity, buyer, index % 3 > 0).await;
        purchases.lock().unwrap().push(purchase);
    });
    let control = async {
        eventually("the sale to be in progress", async || {
            let sold = purchases.lock().unwrap().len();
            if sold >= PURCHASES[0] { Ok(()) } else { Err(sold) }
        })
        .await;
        permits.add_permits(PURCHASES[1]);
        let result = back_up().await;
        permits.add_permits(PURCHASES[2]);
        result
    };
    let (result, ()) = join!(control, sell);
    (result, purchases.into_inner().unwrap())
}

/// Checks which purchases are restored, goes on as docs/recovery.md says, and sells the rest.
async fn judge(
    installation: &Installation,
    activity: &TestActivity,
    buyers: &[Buyer],
    purchases: &[Purchase<'_>],
    kept: &Kept,
    lost_at: Instant,
) {
    let app = &installation.app;
    let query = format!("SELECT order_no FROM orders WHERE activity = '{}'", activity.id);
    let restored = app.query_ledger_texts(&query).await;
    let (present, lost): (Vec<_>, Vec<_>) =
        purchases.iter().partition(|purchase| restored.contains(&purchase.order_no));
    for purchase in purchases {
        let is_present = restored.contains(&purchase.order_no);
        assert!(is_present || purchase.accepted_at > kept.0, "{} is lost", purchase.order_no);
        assert!(!is_present || purchase.sent_at < kept.1, "{} is newer than the backup", purchase.order_no);
    }
    assert!(!lost.is_empty(), "nothing was lost, so nothing was tested");
    app.reserve(activity, &buyers[BUYERS - 1], "a", 1).await.is_problem(503, "paused");
    let is_paid = async |purchase: &Purchase<'_>| {
        let order = app.get_order(&purchase.order_no, &purchase.buyer.ticket).await;
        order.status == 200 && order.text("status") == "paid"
    };
    let mut unpaid = 0;
    for purchase in &present {
        let Some((_, paid_at)) = purchase.payment else { continue };
        let is_paid = is_paid(purchase).await;
        assert!(is_paid || paid_at > kept.0, "the payment of {} is lost", purchase.order_no);
        unpaid += usize::from(!is_paid);
    }
    let first_lost = lost.iter().map(|purchase| purchase.sent_at).min().expect("a lost order");
    eprintln!(
        "{} of {} orders restored; lost: {} orders of the last {:.1} s, payments of {unpaid} others",
        present.len(),
        purchases.len(),
        lost.len(),
        (lost_at - first_lost).as_secs_f64()
    );

    join_all(purchases.iter().map(|purchase| purchase.send_callback(app))).await;
    installation.resume();
    // A buyer who repeats the request gets the order back, and the operator's replay its payment.
    for purchase in &lost {
        let order_no = eventually("the sale to go on", async || {
            let answer = app.reserve(activity, purchase.buyer, "a", 1).await;
            if answer.status == 202 { Ok(answer.text("order_no")) } else { Err(answer.body) }
        })
        .await;
        assert_eq!(order_no, purchase.order_no);
        app.wait_for_status(&order_no, &purchase.buyer.ticket, "pending_payment").await;
        if purchase.payment.is_some() {
            let replay = format!("/callbacks/{}/replay", purchase.callback_id());
            app.call_admin(Method::POST, &replay, &Value::Null).await.is(200);
        }
    }
    for buyer in &buyers[purchases.len()..] {
        let answer = app.reserve(activity, buyer, "a", 1).await;
        assert!(answer.status == 202 || answer.code() == "sold_out", "{answer:?}");
    }
    let paid = purchases.iter().filter(|purchase| purchase.payment.is_some()).count();
    let count = |units: usize| i64::try_from(units).expect("a number");
    assert_eq!(app.finish_and_count(activity).await, [0, count(UNITS - paid), count(paid)]);
    for purchase in purchases.iter().filter(|purchase| purchase.payment.is_some()) {
        assert!(is_paid(purchase).await, "{} is not paid", purchase.order_no);
    }
    let parked = app.call_admin(Method::GET, "/callbacks", &Value::Null).await.is(200);
    assert_eq!(parked.json()["items"], json!([]));
}

/// Places orders that no writer hears of: Redis believes that one is awake.
async fn place_silently(app: &TestApp) -> (TestActivity, i64) {
    let activity = app.create_activity(json!({})).await;
    let stats = format!("{{{}}}:stats", activity.id);
    let buyers = app.create_buyers(&activity, 3).await;
    for buyer in &buyers {
        let now: Vec<i64> = app.ask_redis(&["TIME"]).await;
        let awake_until = (now[0] * 1_000 + 1_900).to_string();
        app.ask_redis::<i64>(&["HSET", &stats, "awake_until", &awake_until]).await;
        app.reserve(&activity, buyer, "a", 1).await.is(202);
    }
    (activity, buyers.len() as i64)
}

/// A directory for backups, an archive below it, and the settings of PostgreSQL that fill that.
fn archive() -> (TempDir, String, String) {
    let backups = shared_directory();
    let archive = backups.path().join("wal");
    fs::create_dir(&archive)
        .and_then(|()| fs::set_permissions(&archive, fs::Permissions::from_mode(0o777)))
        .expect("an archive");
    let archive = archive.to_str().expect("UTF-8").to_owned();
    let settings = fs::read_to_string(root::find().expect("the project").join("deploy/backup/postgres.conf"));
    let settings = settings.expect("settings").replace("/var/backups/stampede/wal", &archive);
    (backups, archive, settings)
}

/// A directory that PostgreSQL's user may enter.
fn shared_directory() -> TempDir {
    let directory = TempDir::new().expect("a directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
    directory
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_on_sqlite_that_lost_everything_is_restored_up_to_its_backup() {
    let mut installation = Installation::start(shared_directory(), Stores::Sqlite).await;
    let activity = installation.app.create_activity(json!({"skus": single_sku(UNITS as i64)})).await;
    let buyers = installation.app.create_buyers(&activity, BUYERS).await;
    let (silent, silent_orders) = place_silently(&installation.app).await;
    let count_silent = async |app: &TestApp| app.count_orders(&silent.id, "1 = 1").await;
    let back_up = async || {
        let started = Instant::now();
        eprintln!("{} orders are only in Redis", silent_orders - count_silent(&installation.app).await);
        (installation.back_up().await, Kept(started, Instant::now()))
    };
    let ((backup, kept), purchases) = sell_during(&installation.app, &activity, &buyers, back_up).await;
    eprintln!("the backup took {:.1} s", (kept.1 - kept.0).as_secs_f64());
    let lost_at = Instant::now();
    block_in_place(|| {
        installation.lose_everything();
        installation.restore(&backup, &[]);
    });
    assert_eq!(count_silent(&installation.app).await, silent_orders, "orders that were only in Redis are lost");
    judge(&installation, &activity, &buyers, &purchases, &kept, lost_at).await;
}

/// Sells, backs up, closes another sale, sells on, loses everything, and restores PostgreSQL up to a time before the end.
/// `archive` is that of deploy/backup/postgres.conf.
async fn lose_and_restore_to_a_time(mut installation: Installation, archive: &str) {
    let activity = installation.app.create_activity(json!({"skus": single_sku(UNITS as i64)})).await;
    let buyers = installation.app.create_buyers(&activity, BUYERS).await;
    let closed = installation.app.create_activity(json!({})).await;
    let late_buyer = installation.app.create_buyer(&closed, "ada").await;
    let (backup, mut purchases) =
        sell_during(&installation.app, &activity, &buyers, async || installation.back_up().await).await;
    // Redis's copy is older, and has this sale open.
    installation.app.call_admin(Method::POST, &format!("/activities/{}/close", closed.id), &Value::Null).await.is(200);
    installation.app.finish_and_count(&activity).await;
    let before = Instant::now();
    let [until] = &installation.app.query_ledger_texts("SELECT now()::text").await[..] else { panic!("no time") };
    let kept = Kept(before, Instant::now());
    for buyer in &buyers[purchases.len()..][..LATE_PURCHASES] {
        purchases.push(buy(&installation.app, &activity, buyer, true).await);
    }
    let switch = installation.query_postgres("SELECT pg_walfile_name(pg_switch_wal())");
    eventually("the late purchases to be archived", async || match Path::new(archive).join(&switch).exists() {
        true => Ok(()),
        false => Err(&switch),
    })
    .await;
    let lost_at = Instant::now();
    block_in_place(|| {
        installation.lose_everything();
        installation.restore(&backup, &["--wal", archive, "--until", until]);
    });
    installation.app.reserve(&closed, &late_buyer, "a", 1).await.is_problem(410, "ended");
    judge(&installation, &activity, &buyers, &purchases, &kept, lost_at).await;
}

#[ignore = "the same with PostgreSQL: --long"]
#[tokio::test(flavor = "multi_thread")]
async fn a_sale_on_postgresql_that_lost_everything_is_restored_up_to_a_time_after_its_backup() {
    let (backups, archive, settings) = archive();
    let postgres = Postgres::with_settings(&settings).expect("PostgreSQL");
    let installation = Installation::start(backups, Stores::Postgres(postgres)).await;
    lose_and_restore_to_a_time(installation, &archive).await;
}

#[ignore = "the same with the kits of Patroni and Sentinel: --long"]
#[tokio::test(flavor = "multi_thread")]
async fn a_sale_on_patroni_and_sentinel_that_lost_everything_is_restored_up_to_a_time_after_its_backup() {
    let (backups, archive, settings) = archive();
    let patroni = Patroni::start().expect("Patroni");
    let file = backups.path().join("postgres.conf");
    fs::write(&file, &settings).expect("written");
    for command in commands(&settings).iter().filter(|command| command.starts_with("patronictl ")) {
        patroni.run(&command.replace(" postgres.conf", &format!(" {}", file.display()))).expect(command);
    }
    patroni.wait_until_synchronous().expect("a synchronous standby");
    let installation = Installation::start(backups, Stores::kits(patroni).await).await;
    lose_and_restore_to_a_time(installation, &archive).await;
}
