//! Human checks (B5): solved, reused, used by another user, expired, forged and guessed.

use altcha::{Payload, Solution, SolveChallengeOptions, solve_challenge};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use domain::{
    human_check::{LIFETIME_MS, Subject},
    ids::{ActivityId, UserId},
    time::Millis,
};
use puzzle::{slider, sum};
use serde_json::json;
use support::{TestActivity, TestApp, activity::single_sku, human_checks::altcha_body};
use time::OffsetDateTime;

fn now() -> Millis {
    Millis((OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000) as i64)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_of_work_is_valid_for_one_ticket_of_its_user_and_activity() {
    let app = TestApp::shared();
    let (activity, other_activity) = (
        app.create_activity(json!({"human_check": "pow"})).await,
        app.create_activity(json!({"human_check": "pow"})).await,
    );
    let (ada, eve) = (app.sign_in("ada"), app.sign_in("eve"));
    app.request_ticket(&activity.id, &ada).await.is_problem(403, "human_check_required");
    let proof = altcha_body(&app.solve_proof_of_work(&activity, &ada).await);
    app.request_ticket_with(&activity, &eve, &proof).await.is_problem(403, "human_check_failed");
    app.request_ticket_with(&other_activity, &ada, &proof).await.is_problem(403, "human_check_failed");
    let ticket = app.request_ticket_with(&activity, &ada, &proof).await.is(201).text("ticket");
    app.request_ticket_with(&activity, &ada, &proof).await.is_problem(403, "human_check_failed");
    let buyer = support::Buyer { user: "ada".to_owned(), jwt: ada, ticket };
    app.reserve(&activity, &buyer, "a", 1).await.is(202);
}

/// Who cannot see a picture works instead.
#[tokio::test(flavor = "multi_thread")]
async fn a_proof_of_work_is_the_other_way_through_a_picture_puzzle() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"human_check": "captcha"})).await;
    let ada = app.sign_in("ada");
    let work = json!({"altcha": 2, "captcha": "sum", "work": true});
    let proof = altcha_body(&app.solve_challenge_of(&activity, &ada, &work).await);
    app.request_ticket_with(&activity, &ada, &proof).await.is(201);
    app.request_ticket_with(&activity, &ada, &proof).await.is_problem(403, "human_check_failed");
    // Work is no picture, of which a user gets ten.
    for _ in 0..12 {
        app.request_challenge(&activity, &ada, &work).await.is(200);
    }
    let without = app.create_activity(json!({"human_check": "none"})).await;
    app.request_challenge(&without, &ada, &work).await.is_problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_proof_of_work_gives_no_ticket() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"human_check": "pow"})).await;
    let faker = app.sign_in("faker");
    let valid = app.solve_proof_of_work(&activity, &faker).await;
    let with_change = |change: &dyn Fn(&mut Payload)| {
        let mut payload = valid.clone();
        change(&mut payload);
        altcha_body(&payload)
    };
    // Version 1 of ALTCHA takes a robot a fraction of the work.
    let version_1 = json!({"algorithm": "SHA-256", "challenge": "00", "number": 1, "salt": "x?&", "signature": "00"});
    for (case, body) in [
        ("nothing", json!({"altcha": ""})),
        ("version 1", json!({ "altcha": BASE64_STANDARD.encode(version_1.to_string()) })),
        ("no work", with_change(&|p| p.solution = Solution { counter: 0, derived_key: String::new(), time: None })),
        ("a cheaper challenge", with_change(&|p| p.challenge.parameters.cost = 1)),
    ] {
        let user = app.sign_in(&format!("faker with {case}"));
        app.request_ticket_with(&activity, &user, &body).await.of(case).is_problem(403, "human_check_failed");
    }
    let long = json!({"altcha": "A".repeat(1_000_000)});
    app.request_ticket_with(&activity, &faker, &long).await.is_problem(413, "payload_too_large");
    let wrong = app.request_ticket_with(&activity, &faker, &json!({"altcha": 7})).await;
    wrong.is_problem(400, "invalid_request").points_at("/altcha");
    for version in [0, 1, 3] {
        let refused = app.request_challenge(&activity, &faker, &json!({ "altcha": version })).await;
        refused.is_problem(400, "invalid_request").points_at("/altcha");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_check_is_refused_and_does_not_count_as_abuse() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"human_check": "pow"})).await;
    let (activity_id, user) = (ActivityId::parse(&activity.id).expect("id"), UserId::parse("late").expect("id"));
    let subject = Subject { activity: &activity_id, user: &user };
    let challenge =
        app.check_keys().issue_altcha(subject, 1, 0, now().plus(-LIFETIME_MS - 1_000)).expect("a challenge");
    let solution = solve_challenge(SolveChallengeOptions::new(&challenge)).expect("solvable").expect("in time");
    let proof = altcha_body(&Payload { challenge, solution });
    for _ in 0..10 {
        app.request_ticket_with(&activity, &app.sign_in("late"), &proof).await.is_problem(403, "human_check_failed");
    }
    let second_proof = altcha_body(&app.solve_proof_of_work(&activity, &app.sign_in("late")).await);
    app.request_ticket_with(&activity, &app.sign_in("late"), &second_proof).await.is(201);
}

/// Solves challenges of one user until their average work is known, and returns it in tries.
async fn average_work(app: &TestApp, activity: &TestActivity) -> f64 {
    let mut tries = 0;
    for index in 0..8 {
        let user = app.sign_in(&format!("worker-{index}"));
        tries += app.solve_proof_of_work(activity, &user).await.solution.counter;
    }
    f64::from(tries) / 8.0
}

#[tokio::test(flavor = "multi_thread")]
async fn proof_of_work_costs_more_when_visitors_outnumber_units_or_the_operator_says_so() {
    let app = TestApp::shared();
    let dear = app.create_activity(json!({"human_check": "pow", "min_difficulty": 8})).await;
    // Eight draws from 1 to 2,400: their average is below 300, the most at difficulty 1, once in ten million times.
    let floor = average_work(&app, &dear).await;
    assert!(floor > 300.0, "{floor} tries on average");
    let activity = app.create_activity(json!({"human_check": "pow", "skus": single_sku(1)})).await;
    // Add a thousand visitors to the HyperLogLog in which admission counts them.
    let users: Vec<String> = (0..1_000).map(|index| format!("u{index}")).collect();
    let mut redis = app.connect_redis().await;
    let key = format!("{{{}}}:visitors", activity.id);
    let _: () = redis::cmd("PFADD").arg(key).arg(users).query_async(&mut redis).await.expect("counted");
    support::eventually("a dearer challenge", async || {
        let work = average_work(&app, &activity).await;
        if work > 300.0 { Ok(()) } else { Err(work.to_string()) }
    })
    .await;
    // The gate also spreads the start over a longer time.
    support::eventually("a longer spread", async || {
        let gate = app.http.get(&format!("/api/activities/{}/gate.json", activity.id), "").await.is(200).json();
        if gate["jitter_ms"].as_i64() > Some(100) { Ok(()) } else { Err(gate.to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sum_captcha_accepts_one_answer() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"human_check": "captcha"})).await;
    let ada = app.sign_in("ada");
    app.request_ticket(&activity.id, &ada).await.is_problem(403, "human_check_required");
    let (activity_id, user) = (ActivityId::parse(&activity.id).expect("id"), UserId::parse("ada").expect("id"));
    let subject = Subject { activity: &activity_id, user: &user };
    let request_sum = async || {
        let captcha =
            app.request_challenge(&activity, &ada, &json!({"captcha": "sum"})).await.is(200).json()["captcha"].clone();
        assert_eq!(captcha["kind"], "sum");
        let image = captcha["image"].as_str().and_then(|url| url.strip_prefix("data:image/png;base64,"));
        assert!(BASE64_STANDARD.decode(image.expect("a picture")).expect("base64").starts_with(b"\x89PNG"));
        let id = captcha["id"].as_str().expect("id").to_owned();
        let seed = app.check_keys().verify_puzzle(&id, subject, now()).expect("a puzzle of ours").seed;
        (id, (0..200).find(|solution| sum::verify(seed, *solution)).expect("an answer"))
    };
    let captcha_body = |id: &str, value: i64| json!({"captcha": {"id": id, "answer": value}});
    let (id, correct) = request_sum().await;
    app.request_ticket_with(&activity, &app.sign_in("eve"), &captcha_body(&id, correct))
        .await
        .is_problem(403, "human_check_failed");
    app.request_ticket_with(&activity, &ada, &captcha_body(&id, correct)).await.is(201);
    app.request_ticket_with(&activity, &ada, &captcha_body(&id, correct)).await.is_problem(403, "human_check_failed");
    // A wrong answer uses the captcha up: the correct one is refused afterwards.
    let (id, correct) = request_sum().await;
    app.request_ticket_with(&activity, &ada, &captcha_body(&id, correct + 1))
        .await
        .is_problem(403, "human_check_failed");
    app.request_ticket_with(&activity, &ada, &captcha_body(&id, correct)).await.is_problem(403, "human_check_failed");
    let wrong = json!({"captcha": {"id": 7, "answer": 1}});
    app.request_ticket_with(&activity, &ada, &wrong).await.is_problem(400, "invalid_request").points_at("/captcha/id");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slider_captcha_accepts_only_a_human_track_to_the_gap() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"human_check": "captcha"})).await;
    let activity_id = ActivityId::parse(&activity.id).expect("id");
    let track = |x: i64| (0..=12_i64).map(|index| (index * 37 + index % 4, x * index / 12)).collect::<Vec<_>>();
    for (case, status, offset, single_jump) in
        [("right", 201, 0, false), ("beside it", 403, 30, false), ("one jump", 403, 0, true)]
    {
        let user = UserId::parse(&case.replace(' ', "-")).expect("id");
        let jwt = app.sign_in(user.as_str());
        let captcha = app.request_challenge(&activity, &jwt, &json!({})).await.is(200).json()["captcha"].clone();
        assert_eq!((captcha["kind"].as_str(), captcha["width"].as_u64()), (Some("slider"), Some(320)));
        assert!(captcha["piece"].as_str().is_some_and(|url| url.starts_with("data:image/png;base64,")));
        let id = captcha["id"].as_str().expect("id");
        let subject = Subject { activity: &activity_id, user: &user };
        let seed = app.check_keys().verify_puzzle(id, subject, now()).expect("a puzzle of ours").seed;
        let is_solution = |x: &i64| slider::verify(seed, &slider::Slide { x: *x, track: track(*x) }, 10_000);
        let x = (0..320).find(is_solution).expect("a gap") + offset;
        let track = if single_jump { vec![(0, 0), (500, x)] } else { track(x) };
        let body = json!({"captcha": {"id": id, "answer": x, "track": track}});
        let response = app.request_ticket_with(&activity, &jwt, &body).await;
        assert_eq!(response.status, status, "{case}: {response:?}");
    }
}

#[tokio::test]
async fn an_activity_without_a_human_check_has_no_challenge() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    app.request_challenge(&activity, &app.sign_in("ada"), &json!({})).await.is_problem(404, "not_found");
    app.request_challenge(&activity, "", &json!({})).await.is_problem(401, "unauthenticated");
}
