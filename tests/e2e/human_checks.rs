//! Human checks (B5): solved, reused, borrowed, late, faked and guessed.

use altcha::{Payload, Solution, SolveChallengeOptions, solve_challenge};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use domain::{
    check::{LIFETIME_MS, Subject},
    ids::{ActivityId, UserId},
    time::Millis,
};
use futures::future::join_all;
use puzzle::{slider, sum};
use serde_json::{Value, json};
use time::OffsetDateTime;

use support::{Answer, TestApp, activity::units};

fn altcha(payload: &Payload) -> Value {
    json!({ "altcha": BASE64_STANDARD.encode(serde_json::to_string(payload).expect("json")) })
}

fn now() -> Millis {
    Millis((OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000) as i64)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_of_work_is_good_for_one_ticket_of_its_user_and_sale() {
    let app = TestApp::shared();
    let (sale, other) = (app.sale(json!({"human_check": "pow"})).await, app.sale(json!({"human_check": "pow"})).await);
    let (ada, eve) = (app.sign_in("ada"), app.sign_in("eve"));
    app.ticket(&sale.id, &ada).await.is_problem(403, "human_check_required");
    let proof = altcha(&app.work(&sale, &ada).await);
    app.ticket_with(&sale, &eve, &proof).await.is_problem(403, "human_check_failed");
    app.ticket_with(&other, &ada, &proof).await.is_problem(403, "human_check_failed");
    let ticket = app.ticket_with(&sale, &ada, &proof).await.is(201).text("ticket");
    app.ticket_with(&sale, &ada, &proof).await.is_problem(403, "human_check_failed");
    let buyer = support::Buyer { user: "ada".to_owned(), jwt: ada, ticket };
    app.reserve(&sale, &buyer, "a", 1).await.is(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_of_work_that_many_use_at_once_is_one_ticket() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"human_check": "pow"})).await;
    let ada = app.sign_in("ada");
    let proof = altcha(&app.work(&sale, &ada).await);
    let answers = join_all((0..20).map(|_| app.ticket_with(&sale, &ada, &proof))).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
    assert_eq!(won.len(), 1, "{won:?}");
    // Who keeps on trying is banned at last.
    for answer in lost {
        assert!(
            answer.status == 403 && ["human_check_failed", "banned"].contains(&answer.code().as_str()),
            "{answer:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fake_proof_of_work_is_no_ticket() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"human_check": "pow"})).await;
    let jwt = |at: usize| app.sign_in(&format!("faker-{at}"));
    let good = app.work(&sale, &jwt(0)).await;
    let with = |change: &dyn Fn(&mut Payload)| {
        let mut payload = good.clone();
        change(&mut payload);
        altcha(&payload)
    };
    let prefix = good.challenge.parameters.key_prefix.clone();
    let text = |text: &str| json!({ "altcha": text });
    let fakes = [
        ("test mode", text(&BASE64_STANDARD.encode(r#"{"challenge":null,"solution":null,"test":true}"#))),
        ("nothing", text("")),
        ("noise", text("%%%")),
        ("no work", with(&|p| p.solution = Solution { counter: 0, derived_key: String::new(), time: None })),
        ("the prefix alone", with(&|p| p.solution = Solution { counter: 0, derived_key: prefix.clone(), time: None })),
        ("a cheaper challenge", with(&|p| p.challenge.parameters.cost = 1)),
        ("any key will do", with(&|p| p.challenge.parameters.key_prefix.clear())),
        ("no signature", with(&|p| p.challenge.signature = None)),
        ("for ever", with(&|p| p.challenge.parameters.expires_at = None)),
    ];
    for (at, (what, body)) in fakes.iter().enumerate() {
        let answer = app.ticket_with(&sale, &jwt(at), body).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "human_check_failed"), "{what}: {answer:?}");
    }
    let long = app.ticket_with(&sale, &jwt(0), &text(&"A".repeat(12_000))).await;
    long.is_problem(403, "human_check_failed");
    app.ticket_with(&sale, &jwt(0), &text(&"A".repeat(1_000_000))).await.is_problem(413, "payload_too_large");
    app.ticket_with(&sale, &jwt(0), &json!({"altcha": 7}))
        .await
        .is_problem(400, "invalid_request")
        .points_at("/altcha");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_is_late_is_refused_and_not_held_against_anybody() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"human_check": "pow"})).await;
    let (activity, user) = (ActivityId::parse(&sale.id).expect("id"), UserId::parse("late").expect("id"));
    let to = Subject { activity: &activity, user: &user };
    let challenge = app.check_keys().ask_v2(to, 1, 0, now().plus(-LIFETIME_MS - 1_000)).expect("a challenge");
    let solution = solve_challenge(SolveChallengeOptions::new(&challenge)).expect("solvable").expect("in time");
    let proof = altcha(&Payload { challenge, solution });
    for _ in 0..10 {
        app.ticket_with(&sale, &app.sign_in("late"), &proof).await.is_problem(403, "human_check_failed");
    }
    let again = altcha(&app.work(&sale, &app.sign_in("late")).await);
    app.ticket_with(&sale, &app.sign_in("late"), &again).await.is(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_widget_is_asked_in_its_own_words() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"human_check": "pow"})).await;
    let ada = app.sign_in("ada");
    let mut payload = app.challenge(&sale, &ada, &json!({"altcha": 1})).await.is(200).json();
    let (salt, goal) = (payload["salt"].as_str().expect("salt"), payload["challenge"].as_str().expect("challenge"));
    assert!(salt.ends_with('&'), "{payload}");
    let hash = |number: &u64| {
        use std::fmt::Write as _;
        let digest = <sha2::Sha256 as sha2::Digest>::digest(format!("{salt}{number}"));
        digest.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    };
    let number = (0..=payload["maxnumber"].as_u64().expect("maxnumber")).find(|number| hash(number) == goal);
    payload["number"] = json!(number.expect("a solution"));
    let proof = json!({ "altcha": BASE64_STANDARD.encode(payload.to_string()) });
    app.ticket_with(&sale, &ada, &proof).await.is(201);
    app.ticket_with(&sale, &ada, &proof).await.is_problem(403, "human_check_failed");
    payload["number"] = json!(0);
    let proof = json!({ "altcha": BASE64_STANDARD.encode(payload.to_string()) });
    app.ticket_with(&sale, &ada, &proof).await.is_problem(403, "human_check_failed");
    app.challenge(&sale, &ada, &json!({"altcha": 3})).await.is_problem(400, "invalid_request").points_at("/altcha");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_gets_dearer_as_more_people_want_a_ticket_than_there_are_units() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"human_check": "pow", "skus": units(1)})).await;
    let largest = |answer: Answer| answer.is(200).json()["maxnumber"].as_u64().expect("maxnumber");
    let calm = largest(app.challenge(&sale, &app.sign_in("ada"), &json!({"altcha": 1})).await);
    // A thousand users hold a ticket: counted in Redis, as the tickets themselves are.
    let users: Vec<String> = (0..1_000).map(|at| format!("u{at}")).collect();
    let mut redis = app.redis().await;
    let key = format!("{{{}}}:visitors", sale.id);
    let _: () = redis::cmd("PFADD").arg(key).arg(users).query_async(&mut redis).await.expect("counted");
    let dear = support::eventually("a dearer challenge", async || {
        let seen = largest(app.challenge(&sale, &app.sign_in("ada"), &json!({"altcha": 1})).await);
        if seen > calm { Ok(seen) } else { Err(seen.to_string()) }
    })
    .await;
    assert_eq!(dear, 8 * calm, "and never more than that");
    // The crowd is spread further, too.
    support::eventually("a longer spread", async || {
        let gate = app.http.get(&format!("/api/activities/{}/gate.json", sale.id), "").await.is(200).json();
        if gate["jitter_ms"].as_i64() > Some(100) { Ok(()) } else { Err(gate.to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sum_is_answered_once() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"human_check": "captcha"})).await;
    let ada = app.sign_in("ada");
    app.ticket(&sale.id, &ada).await.is_problem(403, "human_check_required");
    let (activity, user) = (ActivityId::parse(&sale.id).expect("id"), UserId::parse("ada").expect("id"));
    let to = Subject { activity: &activity, user: &user };
    let ask = async || {
        let captcha = app.challenge(&sale, &ada, &json!({"captcha": "sum"})).await.is(200).json()["captcha"].clone();
        assert_eq!(captcha["kind"], "sum");
        let image = captcha["image"].as_str().and_then(|url| url.strip_prefix("data:image/png;base64,"));
        assert!(BASE64_STANDARD.decode(image.expect("a picture")).expect("base64").starts_with(b"\x89PNG"));
        let id = captcha["id"].as_str().expect("id").to_owned();
        let seed = app.check_keys().open_puzzle(&id, to, now()).expect("a puzzle of ours").seed;
        (id, (0..200).find(|answer| sum::judge(seed, *answer)).expect("an answer"))
    };
    let answer = |id: &str, answer: i64| json!({"captcha": {"id": id, "answer": answer}});
    let (id, right) = ask().await;
    app.ticket_with(&sale, &app.sign_in("eve"), &answer(&id, right)).await.is_problem(403, "human_check_failed");
    app.ticket_with(&sale, &ada, &answer(&id, right)).await.is(201);
    app.ticket_with(&sale, &ada, &answer(&id, right)).await.is_problem(403, "human_check_failed");
    // A wrong answer burns the picture: the right one comes too late.
    let (id, right) = ask().await;
    app.ticket_with(&sale, &ada, &answer(&id, right + 1)).await.is_problem(403, "human_check_failed");
    app.ticket_with(&sale, &ada, &answer(&id, right)).await.is_problem(403, "human_check_failed");
    let wrong = json!({"captcha": {"id": 7, "answer": 1}});
    app.ticket_with(&sale, &ada, &wrong).await.is_problem(400, "invalid_request").points_at("/captcha/id");
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_a_picture_is_limited_and_ends_in_a_ban() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"human_check": "captcha"})).await;
    let robot = app.sign_in("robot");
    let captcha = app.challenge(&sale, &robot, &json!({"captcha": "sum"})).await.is(200).json()["captcha"].clone();
    // All answers to one picture at once: the first that arrives is the only one that counts.
    let guesses = (0..200).map(|guess| json!({"captcha": {"id": captcha["id"], "answer": guess}}));
    let guesses: Vec<_> = guesses.collect();
    let answers = join_all(guesses.iter().map(|guess| app.ticket_with(&sale, &robot, guess))).await;
    let tickets = answers.iter().filter(|answer| answer.status == 201).count();
    assert!(tickets <= 1, "{tickets} tickets for one picture");
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        assert!(["human_check_failed", "banned"].contains(&answer.code().as_str()), "{answer:?}");
    }
    app.challenge(&sale, &robot, &json!({})).await.is_problem(403, "banned");
    let refusals = app.stats(&sale.id).await["refusals"].clone();
    assert!(refusals["human_check_failed"].as_i64() >= Some(5) && refusals["banned"].as_i64() >= Some(1), "{refusals}");
    app.challenge(&sale, &app.sign_in("human"), &json!({})).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_piece_is_slid_into_its_gap_by_hand() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"human_check": "captcha"})).await;
    let activity = ActivityId::parse(&sale.id).expect("id");
    let track = |x: i64| (0..=12_i64).map(|at| (at * 37 + at % 4, x * at / 12)).collect::<Vec<_>>();
    for (what, status, by, even) in
        [("right", 201, 0, false), ("beside it", 403, 30, false), ("one jump", 403, 0, true)]
    {
        let user = UserId::parse(&what.replace(' ', "-")).expect("id");
        let jwt = app.sign_in(user.as_str());
        let captcha = app.challenge(&sale, &jwt, &json!({})).await.is(200).json()["captcha"].clone();
        assert_eq!((captcha["kind"].as_str(), captcha["width"].as_u64()), (Some("slider"), Some(320)));
        assert!(captcha["piece"].as_str().is_some_and(|url| url.starts_with("data:image/png;base64,")));
        let id = captcha["id"].as_str().expect("id");
        let to = Subject { activity: &activity, user: &user };
        let seed = app.check_keys().open_puzzle(id, to, now()).expect("a puzzle of ours").seed;
        let fits = |x: &i64| slider::judge(seed, &slider::Slide { x: *x, track: track(*x) }, 10_000);
        let x = (0..320).find(fits).expect("a gap") + by;
        let track = if even { vec![(0, 0), (500, x)] } else { track(x) };
        let body = json!({"captcha": {"id": id, "answer": x, "track": track}});
        let answer = app.ticket_with(&sale, &jwt, &body).await;
        assert_eq!(answer.status, status, "{what}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_looks_suspicious_is_asked() {
    let app = TestApp::shared();
    let limits = json!({"user": {"count": 2, "seconds": 600}, "ip": null, "all": null});
    let sale = app.sale(json!({"human_check": "suspicious", "limits": limits})).await;
    app.ticket(&sale.id, &app.sign_in("calm")).await.is(201);
    let eager = app.sign_in("eager");
    for _ in 0..2 {
        app.ticket(&sale.id, &eager).await.is(201);
    }
    for _ in 0..25 {
        app.ticket(&sale.id, &eager).await.is_problem(429, "rate_limited");
    }
    // The limit ends, the bad name does not.
    let mut redis = app.redis().await;
    let bucket = format!("{{{}}}:rate:ticket:user:eager", sale.id);
    let _: () = redis::cmd("DEL").arg(bucket).query_async(&mut redis).await.expect("deleted");
    app.ticket(&sale.id, &eager).await.is_problem(403, "human_check_required");
    let proof = altcha(&app.work(&sale, &eager).await);
    app.ticket_with(&sale, &eager, &proof).await.is(201);
    app.ticket(&sale.id, &app.sign_in("another")).await.is(201);
}

#[tokio::test]
async fn a_sale_without_a_check_has_no_challenge() {
    let app = TestApp::shared();
    let sale = app.sale(json!({})).await;
    app.challenge(&sale, &app.sign_in("ada"), &json!({})).await.is_problem(404, "not_found");
    app.challenge(&sale, "", &json!({})).await.is_problem(401, "unauthenticated");
}
