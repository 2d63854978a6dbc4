//! Whole sales with a line, and with robots, through kills of app processes, order writers, Redis and PostgreSQL (H1; I8, I9).
//! The load generator judges them: every freed unit went to the line, in its order, and no sweep left one free.

use std::time::Duration;

use fastrand::Rng;
use support::load::run_sale;
use tempfile::TempDir;

use crate::{
    cluster::Cluster,
    kills::{kill_one, seeds},
};

/// Runs a sale, and kills something about every `pause` until it has ended. Redis syncs each write, so that nothing is lost.
async fn sell_through_kills(start: impl Fn(&[&str]) -> Cluster, sale: &str, pause: Duration) {
    let cluster = start(&["--appendfsync", "always"]);
    let (seed, directory) = (seeds(1)[0], TempDir::new().expect("a directory"));
    let (mut rng, mut kills) = (Rng::with_seed(seed), [0; 4]);
    let mut sale = Box::pin(run_sale(&cluster.app, directory.path(), sale, &[]));
    let report = loop {
        tokio::select! {
            report = &mut sale => break report,
            () = tokio::time::sleep(pause.mul_f64(0.5 + rng.f64())) => tokio::task::block_in_place(|| {
                let mut what = rng.u8(..4);
                if what == 3 && !cluster.restart_postgres(Duration::from_millis(300)) {
                    what = 2;
                }
                if what < 3 {
                    kill_one(&cluster, what, &mut rng, |_| ());
                }
                kills[usize::from(what)] += 1;
            }),
        }
    };
    println!("STAMPEDE_SEED={seed}; killed: app, writer, Redis, PostgreSQL: {kills:?}\n{report}");
    assert!(report.contains(" I8 ") && report.contains(" I9 ") && report.contains("p95"), "{report}");
    assert!(kills.iter().sum::<u32>() > 0, "nothing was killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_served_in_its_order_through_kills() {
    let sale = "--buyers 200 --stock 20 --pay-share 0.5 --cancel-share 0.4 --pay-timeout 6 --start-in 3 \
                --line waitlist --line-units 40 --offer-seconds 5 --leave-share 0.1 --robots 4";
    sell_through_kills(Cluster::on_postgres, sale, Duration::from_secs(3)).await;
}

#[ignore = "five thousand buyers on both ledgers: --long"]
#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_three_hundred_is_served_in_its_order_through_kills() {
    let sale = "--buyers 5000 --stock 200 --pay-share 0.9 --cancel-share 0.05 --pay-timeout 20 --line waitlist \
                --line-units 300 --offer-seconds 20 --robots 20";
    sell_through_kills(Cluster::of_one, sale, Duration::from_secs(8)).await;
    sell_through_kills(Cluster::on_postgres, sale, Duration::from_secs(8)).await;
}
