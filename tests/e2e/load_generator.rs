//! The load generator's ways to sign in and to pay, and a sale with a line, each in a whole sale (G10; H1, I8, I9).

use std::fs;

use jsonwebtoken::Algorithm;
use support::{Claims, Issuer, TestApp, load::run_sale, payments::use_payment_service};
use tempfile::TempDir;

/// A small sale whose buyers all try to pay.
const ALL_PAY: &str = "--buyers 12 --stock 6 --pay-share 1 --cancel-share 0 --pay-timeout 5 --start-in 2";

#[tokio::test(flavor = "multi_thread")]
async fn buyers_come_with_the_tokens_of_a_file_and_the_sale_is_a_rehearsal_that_is_not_listed() {
    let (app, directory) = (TestApp::shared(), TempDir::new().expect("a directory"));
    let token = |n| Claims::for_user(&format!("of-a-file-{n}"), &app.variables).sign(&app.variables);
    let tokens: Vec<_> = (0..12).map(token).collect();
    fs::write(directory.path().join("tokens"), tokens.join("\n")).expect("written");
    let report = run_sale(&app, directory.path(), ALL_PAY, &["--tokens", "tokens"]).await;
    assert!(report.contains("paid (meant to pay)"), "{report}");
    let mut sales = vec![];
    for token in &tokens {
        let orders = app.http.get("/api/orders", token).await.is(200).json();
        sales.extend(orders["items"].as_array().expect("orders").iter().map(|order| order["activity"].to_string()));
    }
    assert!(sales.len() >= 6 && sales.iter().all(|sale| *sale == sales[0]), "{sales:?}");
    let listed = app.http.get("/api/activities", "").await.is(200).body;
    assert!(!listed.contains(&sales[0]), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_app_trusts_the_key_that_the_load_generator_shows() {
    let directory = TempDir::new().expect("a directory");
    let issuer = Issuer::start("none").await;
    issuer.serve(directory.path().join("jwks.json"));
    let app = TestApp::with_variables(|variables| {
        issuer.set_variables(variables);
        variables.set("jwt_algorithm", "EdDSA RS256 ES256");
    });
    for algorithm in ["es256", "eddsa", "rs256"] {
        let key = format!("{algorithm}.pem");
        let options = ["--sign-with", algorithm, "--signing-key", &key, "--jwks", "jwks.json"];
        run_sale(&app, directory.path(), ALL_PAY, &options).await;
        // The app keeps the keys for longer than this test takes.
        app.restart_with(|variables| {
            let url = variables.get("jwt_jwks_url").to_owned();
            variables.set("jwt_jwks_url", format!("{url}/{algorithm}"));
        });
    }
    let forged = Claims::for_user("mallory", &app.variables).sign_with(Algorithm::HS256, "no key of this app's");
    app.http.get("/api/orders", &forged).await.is_problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_sandbox_payment_pages_are_opened_and_the_orders_expire() {
    let mut calls = None;
    let app = TestApp::with_variables(|variables| calls = Some(use_payment_service(variables)));
    let directory = TempDir::new().expect("a directory");
    let tokens: Vec<_> =
        (0..12).map(|n| Claims::for_user(&format!("buyer-{n}"), &app.variables).sign(&app.variables)).collect();
    fs::write(directory.path().join("tokens"), tokens.join("\n")).expect("written");
    let report = run_sale(&app, directory.path(), ALL_PAY, &["--tokens", "tokens", "--pay", "expire"]).await;
    assert!(report.contains("expired (meant to open the payment page)"), "{report}");
    let opened = calls.expect("a service").try_iter().filter(|call| call["type"] == "session.open").count();
    assert!(opened >= 6, "{opened} sessions");
}

#[tokio::test(flavor = "multi_thread")]
async fn units_that_come_back_go_to_the_line_in_its_order_and_to_no_robot() {
    let sale = "--buyers 60 --stock 10 --per-user 2 --pay-share 0.5 --cancel-share 0.3 --pay-timeout 4 --start-in 3 \
                --line waitlist --line-units 20 --offer-seconds 4 --leave-share 0.2 --robots 4";
    let directory = TempDir::new().expect("a directory");
    let report = run_sale(&TestApp::shared(), directory.path(), sale, &[]).await;
    println!("{report}");
    assert!(report.contains(" I8 ") && report.contains(" I9 ") && report.contains("p95"), "{report}");
}
