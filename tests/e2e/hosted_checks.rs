//! Hosted human checks (B5): a provider's `siteverify` call, with a stand-in that answers as Turnstile and hCaptcha do.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use dev::variables::Variables;
use serde_json::{Value, json};
use support::TestApp;

const SECRET: &str = "1x0000000000000000000000000000000AA";

/// A provider of hosted checks. A token says how it answers; each token is accepted once.
#[derive(Clone, Default)]
struct Provider {
    /// Address of the provider.
    url: String,
    /// The forms that it received.
    forms: Arc<Mutex<Vec<String>>>,
    used: Arc<Mutex<HashSet<String>>>,
}

impl Provider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let provider =
            Self { url: format!("http://{}", listener.local_addr().expect("an address")), ..Self::default() };
        let this = provider.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let provider = this.clone();
                thread::spawn(move || provider.serve(connection));
            }
        });
        provider
    }

    /// Answers one request; the connection then ends.
    fn serve(&self, mut connection: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(connection.try_clone().ok()?);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut form = vec![0; length];
        reader.read_exact(&mut form).ok()?;
        let form = String::from_utf8(form).ok()?;
        self.forms.lock().expect("the forms").push(form.clone());
        let token = form.split('&').find_map(|pair| pair.strip_prefix("response="))?;
        let is_new = self.used.lock().expect("the tokens").insert(token.to_owned());
        let solved = |hostname: &str, action: &str| json!({"success": true, "hostname": hostname, "action": action});
        let refused = |code: &str| json!({"success": false, "error-codes": [code]});
        let document = match token.split('-').next()? {
            "hcaptcha" if !is_new => refused("invalid-or-already-seen-response"),
            _ if !is_new => refused("timeout-or-duplicate"),
            "solved" => solved("shop.example", "ticket"),
            "hcaptcha" => json!({"success": true, "hostname": "shop.example", "credit": false}),
            "elsewhere" => solved("evil.example", "ticket"),
            "login" => solved("shop.example", "login"),
            "secret" => refused("invalid-input-secret"),
            "sitekey" => refused("sitekey-secret-mismatch"),
            "silent" => {
                thread::sleep(Duration::from_secs(20));
                return None;
            }
            "broken" => Value::Null,
            _ => refused("invalid-input-response"),
        };
        let body = document.to_string();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        connection.write_all(format!("{head}{body}").as_bytes()).ok()
    }

    fn configure(&self, variables: &mut Variables) {
        for (name, value) in [
            ("siteverify_url", format!("{}/siteverify", self.url)),
            ("siteverify_host", self.url.clone()),
            ("siteverify_secret", SECRET.to_owned()),
            ("siteverify_site_key", "1x00000000000000000000AA".to_owned()),
            ("siteverify_script", "https://checks.example/api.js?render=explicit".to_owned()),
            ("siteverify_origins", "https://*.checks.example".to_owned()),
            ("siteverify_hostnames", "shop.example".to_owned()),
        ] {
            variables.set(name, value);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hosted_check_counts_once_on_the_shops_pages_and_only_when_its_provider_says_so() {
    let provider = Provider::start();
    let app = TestApp::with_variables(|variables| provider.configure(variables));
    let activity = app.create_activity(json!({"human_check": "hosted"})).await;
    let ada = app.sign_in("ada");
    let challenge = app.request_challenge(&activity, &ada, &json!({})).await.is(200).json();
    let hosted = json!({"script": "https://checks.example/api.js?render=explicit", "site_key": "1x00000000000000000000AA",
        "action": "ticket"});
    assert_eq!(challenge, json!({ "hosted": hosted }));

    app.request_ticket(&activity.id, &ada).await.is_problem(403, "human_check_required");
    let body = |token: &str| json!({ "hosted": token });
    let ticket = app.request_ticket_with(&activity, &ada, &body("solved-1")).await.is(201).text("ticket");
    app.request_ticket_with(&activity, &app.sign_in("ben"), &body("solved-1"))
        .await
        .is_problem(403, "human_check_failed");
    app.request_ticket_with(&activity, &app.sign_in("hal"), &body("hcaptcha-1")).await.is(201);
    let buyer = support::Buyer { user: "ada".to_owned(), jwt: ada, ticket };
    app.reserve(&activity, &buyer, "a", 1).await.is(202);

    let eve = app.sign_in("eve");
    let work = app.request_challenge(&activity, &eve, &json!({"work": true})).await.is(200).json();
    assert_eq!(work, challenge, "work is no way around the provider");
    app.request_ticket_with(&activity, &eve, &json!({"altcha": "e30="})).await.is_problem(403, "human_check_required");

    let long = "x".repeat(9_000);
    for (index, token) in ["elsewhere-1", "login-1", "made up", "", &long].into_iter().enumerate() {
        let robot = app.sign_in(&format!("robot-{index}"));
        app.request_ticket_with(&activity, &robot, &body(token)).await.is_problem(403, "human_check_failed");
    }
    for (user, token, is_banned) in
        [("guesser", "guess-", true), ("repeater", "solved-1", false), ("returner", "hcaptcha-1", false)]
    {
        let user = app.sign_in(user);
        let mut codes = Vec::new();
        for n in 0..12 {
            let token = if is_banned { format!("{token}{n}") } else { token.to_owned() };
            codes.push(app.request_ticket_with(&activity, &user, &body(&token)).await.is(403).code());
        }
        // A used token may come from a request whose reply was lost.
        assert_eq!(codes.contains(&"banned".to_owned()), is_banned, "{codes:?}");
    }

    let forms = provider.forms.lock().expect("the forms").clone();
    assert_eq!(forms[0], format!("secret={SECRET}&response=solved-1&remoteip=127.0.0.1"));
    assert!(forms.iter().all(|form| form.len() < 1_000), "a token that is too long is not sent");

    let page = app.http.get("/sale?activity=x", "").await.is(200);
    let policy = page.header("content-security-policy");
    let scripts = policy.split("; ").find(|directive| directive.starts_with("script-src 'self' ")).expect("scripts");
    assert!(scripts.ends_with(" https://checks.example https://*.checks.example"), "{policy}");
    let other = app.http.get("/order", "").await.is(200);
    assert!(!other.header("content-security-policy").contains("checks.example"), "{other:?}");
}

/// Neither a ticket without a check, nor a mark against the visitor.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_providers_answer_there_is_no_ticket_and_no_abuse() {
    let provider = Provider::start();
    let app = TestApp::with_variables(|variables| provider.configure(variables));
    let activity = app.create_activity(json!({"human_check": "hosted"})).await;
    let ada = app.sign_in("ada");
    for token in ["secret-1", "sitekey-1", "sitekey-2", "broken-1", "silent-1"] {
        let body = json!({ "hosted": token });
        let answered = tokio::time::timeout(Duration::from_secs(10), app.request_ticket_with(&activity, &ada, &body));
        let problem = answered.await.expect("an answer").is_problem(503, "not_ready");
        assert_eq!(problem.header("retry-after"), "5");
        assert!(!problem.body.contains("siteverify") && !problem.body.contains("secret"), "{problem:?}");
    }
    app.with_app(|app| {
        let output = app.output();
        assert!(!output.contains(SECRET), "{output}");
        let errors = output.lines().filter(|line| line.contains("human check not verified")).count();
        assert!(output.contains("invalid-input-secret") && errors < 5, "{output}");
    });
    // A provider that was silent is asked again after ten seconds.
    for _ in 0..30 {
        let answer = app.request_ticket_with(&activity, &ada, &json!({"hosted": "solved-2"})).await;
        if answer.status == 201 {
            return;
        }
        answer.is_problem(503, "not_ready");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("no ticket in 30 s");
}
