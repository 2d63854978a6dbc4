//! A ledger that does not respond (D8, F3, G5; I4).
//!
//! Every route that needs it returns `503` with `Retry-After` within seconds, and recovers without a restart.

use std::time::{Duration, Instant};

use dev::postgres::Postgres;
use futures::{StreamExt, future::join_all, stream};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use support::{Buyer, Response, TestApp, activity::single_sku, eventually};

/// Longest response time of a buyer's or operator's route while the ledger does not respond.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(12);
/// The same for the sweeper.
const MAX_SWEEP_TIME: Duration = Duration::from_secs(25);

/// Components that use the ledger.
const LEDGER_COMPONENTS: usize = 8;

/// Names of the routes that need the ledger, for [`request_route`].
const LEDGER_ROUTES: [&str; 11] =
    ["list", "ticket", "checkout", "cancel", "refund", "orders", "webhook", "ready", "sales", "dead letters", "sweep"];

/// Sends one request to a route of [`LEDGER_ROUTES`], and asserts that its response is in time.
async fn request_route(app: &TestApp, activity_id: &str, order_no: &str, buyer: &Buyer, route: &str) -> Response {
    let start = Instant::now();
    let response = match route {
        "list" => app.http.get("/api/activities", "").await,
        "ticket" => app.request_ticket(activity_id, &buyer.jwt).await,
        "checkout" => app.checkout(order_no, &buyer.jwt).await,
        "cancel" => app.cancel(order_no, &buyer.jwt).await,
        "refund" => app.refund(order_no, &buyer.jwt).await,
        "orders" => app.http.get("/api/orders", &buyer.jwt).await,
        "webhook" => app.send_callback("evt_silent", &TestApp::callback_body("payment.failed", order_no, "none")).await,
        "ready" => app.http.get("/readyz", app.variables.get("metrics_token")).await,
        "sales" => app.call_admin(Method::GET, "/activities", &Value::Null).await,
        "dead letters" => app.call_admin(Method::GET, "/dead-letters", &Value::Null).await,
        "sweep" => app.http.post("/api/tasks/sweep", app.variables.get("cron_token"), &Value::Null).await,
        other => panic!("no route {other}"),
    };
    let (elapsed, limit) = (start.elapsed(), if route == "sweep" { MAX_SWEEP_TIME } else { MAX_RESPONSE_TIME });
    assert!(elapsed < limit, "{route} took {elapsed:?}: {response:?}");
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn all_instances_show_the_list_that_one_of_them_read_before_the_ledger_froze() {
    let (postgres, app) = TestApp::on_postgres();
    let activity = app.create_activity(json!({"skus": single_sku(10)})).await;
    let list = async || app.http.get("/api/activities", "").await.is(200).body;
    assert!(list().await.contains(&activity.id));
    postgres.pause();
    // An instance's own copy is a second old at most.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert!(list().await.contains(&activity.id));
    postgres.resume();
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_that_need_a_frozen_ledger_return_503_in_time_and_recover() {
    let (postgres, app) = TestApp::on_postgres();
    let activity = app.create_activity(json!({"skus": single_sku(10)})).await;
    let (first_buyer, second_buyer) =
        (app.create_buyer(&activity, "winner").await, app.create_buyer(&activity, "next").await);
    let order_no = app.place_order(&activity, &first_buyer).await;

    postgres.pause();
    // In the first round the instances use the connections that they have; in the second they must open new ones.
    for _ in 0..2 {
        let responses =
            join_all(LEDGER_ROUTES.map(|route| request_route(&app, &activity.id, &order_no, &first_buyer, route)))
                .await;
        for (route, response) in LEDGER_ROUTES.iter().zip(responses) {
            // An instance caches the list, and who gets no ticket, for a second.
            if !matches!((*route, response.status), ("list", 200) | ("ticket", 201)) {
                response.is_problem(503, "not_ready");
            }
        }
    }
    // Routes without the ledger still work, and the order stays in Redis until the ledger is back.
    let queued_order = app.reserve(&activity, &second_buyer, "a", 1).await.is(202).text("order_no");
    app.http.get("/healthz", "").await.is(200);
    app.http.get("/metrics", app.variables.get("metrics_token")).await.is(200);

    postgres.resume();
    for route in LEDGER_ROUTES {
        eventually(&format!("{route} to work again"), async || {
            let response = request_route(&app, &activity.id, &order_no, &first_buyer, route).await;
            if matches!(response.status, 200..=204 | 409) { Ok(()) } else { Err(response.body) }
        })
        .await;
    }
    app.sweep_until_written(&queued_order, &second_buyer.ticket).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_clients_than_connections_are_all_served() {
    const CONNECTIONS: usize = 2;
    let postgres = Postgres::ephemeral().expect("PostgreSQL");
    let app = TestApp::with_settings(&[], |settings| {
        settings.variables.set_ledger(&postgres.url()).expect("a URL");
        settings.max_connections = Some(CONNECTIONS);
    });
    let activity = app.create_activity(json!({"skus": single_sku(200)})).await;
    // Each client uses four components in turn, and every component's instances need both stores.
    let clients = (0..100).map(async |n| {
        let buyer = app.create_buyer(&activity, &format!("buyer-{n}")).await;
        let order_no = app.reserve(&activity, &buyer, "a", 1).await.is(202).text("order_no");
        for _ in 0..5 {
            app.http.get("/api/orders", &buyer.jwt).await.is(200);
            app.cancel(&order_no, &buyer.jwt).await;
            let body = TestApp::callback_body("payment.failed", &order_no, "none");
            let callback = app.send_callback(&format!("evt_{n}"), &body).await;
            // A callback about an order that is still queued is repeated by the provider.
            assert!(callback.status == 204 || !callback.body.contains("store"), "{callback:?}");
        }
    });
    join_all(clients).await;
    // Idle connections stay in the pools of the components, which are limited, too, until PostgreSQL closes them.
    const OPEN: &str =
        "SELECT COUNT(*) FROM pg_stat_activity WHERE client_addr IS NOT NULL AND pid <> pg_backend_pid()";
    let open = usize::try_from(app.query_ledger_i64(OPEN).await).expect("a number");
    assert!(open <= CONNECTIONS * LEDGER_COMPONENTS, "{open}");
    eventually("idle connections to be closed", async || match app.query_ledger_i64(OPEN).await {
        0 => Ok(()),
        open => Err(open),
    })
    .await;
    let buyer = app.create_buyer(&activity, "buyer-0").await;
    app.http.get("/api/orders", &buyer.jwt).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_too_many_clients_is_waited_for() {
    let (postgres, app) = TestApp::on_postgres();
    let jwt = app.sign_in("ada");
    let (mut others, mut refused) = (Vec::new(), false);
    while !refused {
        match tokio_postgres::connect(&postgres.url(), tokio_postgres::NoTls).await {
            Ok((client, connection)) => others.push((client, tokio::spawn(connection))),
            Err(_) => refused = true,
        }
    }
    let request = app.http.get("/api/orders", &jwt);
    let refusals = || postgres.output().matches("too many clients").count();
    let before = refusals();
    let release = async {
        eventually("the app to be refused", async || match refusals() {
            number if number > before => Ok(()),
            number => Err(number),
        })
        .await;
        others.clear();
    };
    let (response, ()) = futures::join!(request, release);
    response.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_few_connections_left_is_not_ready() {
    let (postgres, app) = TestApp::on_postgres();
    let ledger_check = async || {
        let ready =
            app.http.get("/readyz", app.variables.get("metrics_token")).await.is_problem(503, "not_ready").json();
        ready["checks"]["ledger"].as_str().unwrap_or_default().to_owned()
    };
    let url = format!("{}?application_name=other", postgres.url());
    let connect = async || {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
        Ok::<_, tokio_postgres::Error>((client, tokio::spawn(connection)))
    };
    let mut others = Vec::new();
    // Of the server's 200, three are reserved.
    while others.len() < 178 {
        others.push(connect().await.expect("a connection"));
    }
    let check = ledger_check().await;
    assert!(check.contains(" of 197 connections in use: raise max_connections"), "{check}");
    eventually("the app to be refused", async || {
        let terminate_app = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE backend_type = 'client backend' AND application_name <> 'other'";
        others[0].0.batch_execute(terminate_app).await.expect("terminated");
        while let Ok(other) = connect().await {
            others.push(other);
        }
        let check = ledger_check().await;
        if check.starts_with("refuses connections") { Ok(()) } else { Err(check) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_unknown_activities_cost_few_ledger_transactions() {
    const TRANSACTIONS: &str = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'";
    const END: &str = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity \
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let (_postgres, app) = TestApp::on_postgres();
    // A connection hands in its statistics when it ends.
    let transactions = async || {
        eventually("the app's connections to end", async || match app.query_ledger_i64(END).await {
            0 => Ok(()),
            open => Err(open),
        })
        .await;
        app.query_ledger_i64(TRANSACTIONS).await
    };
    let before = transactions().await;
    support::eventually_is("the app to connect again", 404, async || {
        app.http.get("/api/activities/nobody/gate.json", "").await
    })
    .await;
    for round in 0..100 {
        let requests = (0..100).map(async |index| {
            let gate = format!("/api/activities/nobody-{round}-{index}/gate.json");
            app.http.get(&gate, "").await.is_problem(404, "not_found")
        });
        join_all(requests).await;
    }
    let after = transactions().await;
    assert!(after - before < 500, "{before}, then {after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_made_up_order_numbers_cost_no_call_to_a_store() {
    let (postgres, app) = TestApp::on_postgres();
    let (activity, buyer, order_no) = app.create_order(json!({})).await;
    app.get_order(&order_no, &buyer.jwt).await.is(200);
    // A store that is asked now does not answer, and the response is `503`.
    app.with_redis(|redis| redis.process().signal(Signal::SIGSTOP));
    postgres.pause();
    let made_up = (0..10_000).map(async |index| {
        let ulid = ulid::Ulid::from_parts(1_800_000_000_000 + index, fastrand::u128(..));
        let order_no = format!("{}.{ulid}", activity.id);
        let response = match index % 8 {
            0 => app.checkout(&order_no, &buyer.jwt).await,
            1 => app.cancel(&order_no, &buyer.jwt).await,
            2 => app.refund(&order_no, &buyer.jwt).await,
            3 => {
                let page = app.http.get(&format!("/api/orders?before={order_no}"), &buyer.jwt).await;
                page.is_problem(400, "invalid_request");
                return;
            }
            _ => app.get_order(&order_no, &buyer.jwt).await,
        };
        response.is_problem(404, "not_found");
    });
    assert_eq!(stream::iter(made_up).buffer_unordered(16).count().await, 10_000);
    app.get_order(&order_no, &buyer.jwt).await.is_problem(503, "not_ready");
    app.with_redis(|redis| redis.process().signal(Signal::SIGCONT));
    postgres.resume();
    app.wait_for_status(&order_no, &buyer.jwt, "pending_payment").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_is_shown_from_its_stale_copy_while_the_ledger_is_frozen() {
    let (postgres, app) = TestApp::on_postgres();
    let activity = app.create_activity(json!({"skus": single_sku(10)})).await;
    let get_info = async || app.http.get(&format!("/api/activities/{}", activity.id), "").await.is(200);
    get_info().await;
    postgres.pause();
    // Expire the copy in key-value that all instances read; it is fresh for a minute.
    let key_value = rusqlite::Connection::open(app.ledger_file().with_file_name("key-value.db")).expect("the copies");
    key_value.busy_timeout(Duration::from_secs(10)).expect("a busy timeout");
    let expire_sql = "UPDATE spin_key_value SET value = CAST(json_set(CAST(value AS TEXT), '$.fresh_until', \
        '1970-01-01T00:00:00Z') AS BLOB) WHERE key = ?1";
    assert_eq!(key_value.execute(expire_sql, [format!("sale:{}", activity.id)]).expect("aged"), 1);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(5) {
        join_all((0..4).map(|_| get_info())).await;
    }
}
