//! Presale codes (B7): uploaded or made by operators, and given to the first users who ask for a ticket with one.

use reqwest::Method;
use serde_json::{Value, json};
use support::{Response, TestApp, activity::TestActivity, human_checks::altcha_body};

/// Uploads a CSV file of codes.
async fn upload(app: &TestApp, activity: &str, csv: &str) -> Response {
    let path = format!("/api/admin/activities/{activity}/codes");
    let token = format!("Bearer {}", app.variables.get("admin_token"));
    let headers = [("authorization", token), ("content-type", "text/csv".to_owned())];
    app.http.send_with_headers(Method::PUT, &path, &headers, csv.to_owned()).await.expect("an answer")
}

async fn codes(app: &TestApp, activity: &str) -> String {
    app.call_admin(Method::GET, &format!("/activities/{activity}/codes"), &Value::Null).await.is(200).body
}

async fn presale(app: &TestApp, overrides: Value) -> TestActivity {
    let activity = app.create_activity(overrides).await;
    upload(app, &activity.id, "code,max_users\nfriends-of-ada,1\nPRESS-2026,2\n").await.is(200);
    activity
}

#[tokio::test]
async fn a_code_gives_tickets_to_its_users_and_to_nobody_else() {
    let app = TestApp::shared();
    let activity = presale(&app, json!({"eligibility": {"codes": true, "allow": ["guest"]}})).await;
    let seen = app.http.get(&format!("/api/activities/{}", activity.id), "").await.is(200).json();
    assert_eq!(seen["eligibility"]["codes"], true);
    for (user, code, is_given) in [
        ("ada", json!(null), false),
        ("ada", json!(""), false),
        ("ada", json!("WRONGCODE"), false),
        ("ada", json!("!"), false),
        ("ada", json!("Friends of Ada"), true),
        ("ada", json!("FRIENDSOFADA"), true),
        ("eve", json!("FRIENDSOFADA"), false),
        ("eve", json!("press2026"), true),
        ("ben", json!("press2026"), true),
        ("cyd", json!("press2026"), false),
        ("guest", json!(null), true),
        // Who has one takes no other.
        ("eve", json!("anything else"), true),
        ("ada", json!("PRESS2026"), true),
    ] {
        let jwt = app.sign_in(user);
        let response =
            app.request_ticket_with(&activity, &jwt, &json!({"code": code})).await.of(format!("{user} {code}"));
        if is_given {
            response.is(201);
        } else {
            assert_eq!(response.is_problem(403, "not_eligible").text("requires"), "code");
        }
    }
    let export = codes(&app, &activity.id).await;
    assert_eq!(export, "code,max_users,users\r\nFRIENDSOFADA,1,1\r\nPRESS2026,2,2\r\n");

    let path = format!("/activities/{}/codes/friends-of-ada", activity.id);
    app.call_admin(Method::DELETE, &path, &Value::Null).await.is(204);
    app.call_admin(Method::DELETE, &path, &Value::Null).await.is_problem(404, "not_found");
    let body = json!({"code": "FRIENDSOFADA"});
    app.request_ticket_with(&activity, &app.sign_in("ada"), &body).await.is_problem(403, "not_eligible");
}

#[tokio::test]
async fn a_wrong_code_uses_up_no_human_check_and_ten_count_as_one_that_failed() {
    let app = TestApp::shared();
    let activity = presale(&app, json!({"human_check": "pow", "eligibility": {"codes": true}})).await;
    let jwt = app.sign_in("ada");
    let proof = altcha_body(&app.solve_proof_of_work(&activity, &jwt).await);
    for code in ["WRONGCODE", "FRIENDSOFADA"] {
        let body = json!({"code": code, "altcha": proof["altcha"]});
        let response = app.request_ticket_with(&activity, &jwt, &body).await;
        response.is(if code == "WRONGCODE" { 403 } else { 201 });
    }
    let guesser = app.sign_in("guesser");
    for n in 0..20 {
        let body = json!({"code": format!("GUESS{n:04}")});
        app.request_ticket_with(&activity, &guesser, &body).await.is_problem(403, "not_eligible");
    }
    let failed = app.stats(&activity.id).await["refusals"]["human_check_failed"].clone();
    assert_eq!(failed, 2);
}

#[tokio::test]
async fn operators_make_upload_and_export_codes_which_go_with_a_draft() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"eligibility": {"codes": true}})).await;
    let path = format!("/activities/{}/codes", activity.id);
    let made = app.call_admin(Method::POST, &path, &json!({"count": 1_000, "max_users": 3})).await.is(200).json();
    assert_eq!(made, json!({"added": 1_000, "codes": 1_000}));
    let export = codes(&app, &activity.id).await;
    let mut lines: Vec<&str> = export.lines().collect();
    assert_eq!((lines.remove(0), lines.len()), ("code,max_users,users", 1_000));
    assert!(lines.iter().all(|line| line.len() == 14 && line.ends_with(",3,0")), "{export}");
    // What was exported can be uploaded again, and to another sale.
    let half = lines[..500].join("\n");
    assert_eq!(upload(&app, &activity.id, &half).await.is(200).json(), json!({"added": 0, "codes": 1_000}));
    let other = app.create_activity(json!({"eligibility": {"codes": true}})).await;
    assert_eq!(upload(&app, &other.id, &half).await.is(200).json(), json!({"added": 500, "codes": 500}));

    let refused = upload(&app, &activity.id, "abc\nSIXCODE,0\n").await.is_problem(400, "invalid_request");
    let pointers: Vec<Value> =
        refused.json()["errors"].as_array().expect("errors").iter().map(|it| it["pointer"].clone()).collect();
    assert_eq!(pointers, ["/0/code", "/1/max_users"]);
    app.call_admin(Method::POST, &path, &json!({"count": 1_001})).await.is_problem(400, "invalid_request");
    for _ in 0..19 {
        app.call_admin(Method::POST, &path, &json!({"count": 1_000})).await.is(200);
    }
    app.call_admin(Method::POST, &path, &json!({"count": 1})).await.is_problem(409, "state_conflict");
    let changes =
        app.call_admin(Method::GET, &format!("/changes?activity={}", activity.id), &Value::Null).await.is(200);
    let code = lines[0].split(',').next().expect("a code");
    assert!(changes.body.contains("/codes") && !changes.body.contains(code), "{}", changes.body);

    let id = support::activity::unique_id("draft");
    let spec = support::activity::activity_spec(&json!({"eligibility": {"codes": true}}));
    for _ in 0..2 {
        app.call_admin(Method::PUT, &format!("/activities/{id}"), &spec).await.is(200);
        assert_eq!(upload(&app, &id, "DRAFTCODE").await.is(200).json()["codes"], 1);
        app.call_admin(Method::DELETE, &format!("/activities/{id}"), &Value::Null).await.is(204);
    }
    app.call_admin(Method::GET, &format!("/activities/{id}/codes"), &Value::Null).await.is_problem(404, "not_found");
}
