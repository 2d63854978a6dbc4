use super::*;

fn spec() -> ActivitySpec {
    crate::http::body::parse(
        br#"{"title":"Spring","starts_at":"2026-01-01T00:00:00Z","ends_at":"2026-01-02T00:00:00Z",
             "limits":{"ip":null,"all":{"count":5,"seconds":1}},
             "skus":[{"sku":"a","name":"A","price":100,"currency":"EUR","total":10}]}"#,
    )
    .expect("a good spec")
}

#[test]
fn omitted_fields_have_defaults() {
    let spec = spec();
    assert_eq!(spec.validate(), []);
    assert_eq!((spec.pay_timeout_seconds, spec.per_user, spec.refund_restocks), (300, 1, true));
    assert_eq!(spec.max_wait_seconds, 60);
}

#[test]
fn null_is_no_limit_and_absent_is_the_default() {
    let limits = spec().limits;
    assert_eq!(limits.user(), Some(Limits::DEFAULT_USER));
    assert_eq!(limits.ip, Some(None));
    assert_eq!(limits.all(), Some(Limit { count: 5, seconds: 1 }));
    let reloaded: Limits = serde_json::from_str(&serde_json::to_string(&limits).expect("json")).expect("limits");
    assert_eq!(reloaded, limits);
}

#[test]
fn each_violation_is_reported_with_its_pointer() {
    let mut wrong = spec();
    wrong.skus[0].total = -2;
    wrong.skus[0].currency = "eur".to_owned();
    wrong.skus[0].price = -1;
    wrong.ends_at = wrong.starts_at;
    wrong.limits.user = Some(Some(Limit { count: 0, seconds: 1 }));
    wrong.eligibility.allow = ["Ada Lovelace", "ada\u{a0}"].map(|user| UserId::parse(user).expect("a user")).into();
    let pointers: Vec<_> = wrong.validate().into_iter().map(|error| error.pointer).collect();
    let after_start = ["/ends_at", "/eligibility/allow/1", "/limits/user"];
    assert_eq!(pointers, [&after_start[..], &["/skus/0/price", "/skus/0/currency", "/skus/0/total"]].concat());
}

#[test]
fn a_text_may_be_translated_and_each_translation_has_the_texts_limits() {
    let mut translated = spec();
    let language = |tag: &str| crate::language::Language::try_from(tag.to_owned()).expect(tag);
    let texts = |text: &str| Translations::from([(language("zh"), text.to_owned())]);
    (translated.titles, translated.descriptions) = (texts("春季"), texts(""));
    translated.skus[0].names = texts("相机");
    (translated.skus[0].item, translated.skus[0].items) = ("Camera".to_owned(), texts("相机"));
    assert_eq!(translated.validate(), []);
    let json = serde_json::to_string(&translated).expect("JSON");
    assert_eq!(body::parse::<ActivitySpec>(json.as_bytes()).expect("a spec"), translated);
    assert!(!serde_json::to_string(&spec()).expect("JSON").contains("names"));
    translated.titles = texts("");
    translated.descriptions = texts(&"x".repeat(8_001));
    translated.skus[0].names = Translations::from([(language(""), "camera".to_owned())]);
    (translated.skus[0].item, translated.skus[0].items) = ("x".repeat(201), texts(""));
    let pointers: Vec<_> = translated.validate().into_iter().map(|error| error.pointer).collect();
    assert_eq!(pointers, ["/titles/zh", "/descriptions/zh", "/skus/0/names", "/skus/0/item", "/skus/0/items/zh"]);
}

/// The JSON pointers to the texts of `value`, which is at `pointer`.
fn texts_in(value: &serde_json::Value, pointer: &str) -> Vec<String> {
    use serde_json::Value;
    match value {
        Value::String(_) => vec![pointer.to_owned()],
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(n, item)| texts_in(item, &format!("{pointer}/{n}"))).collect()
        }
        Value::Object(members) => {
            members.iter().flat_map(|(name, member)| texts_in(member, &format!("{pointer}/{name}"))).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn no_text_has_control_characters_but_descriptions_have_line_breaks_and_tabs() {
    let translations = serde_json::json!({ "zh": "x" });
    let document = serde_json::json!({
        "title": "x", "titles": translations, "description": "x", "descriptions": translations, "image": "x",
        "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2026-01-02T00:00:00Z", "human_check": "none", "checkout": "form",
        "eligibility": { "allow": ["x"], "groups": ["x"] },
        "skus": [{
            "sku": "x", "name": "x", "names": translations, "item": "x", "items": translations, "image": "x",
            "price": 1, "currency": "EUR", "total": 1,
        }],
    });
    let refused_at = |document: &serde_json::Value| -> Vec<String> {
        let errors = match body::parse::<ActivitySpec>(document.to_string().as_bytes()) {
            Ok(spec) => spec.validate(),
            Err(problem) => problem.errors,
        };
        errors.into_iter().map(|error| error.pointer).collect()
    };
    assert_eq!(refused_at(&document), [""; 0]);
    let full: ActivitySpec = body::parse(document.to_string().as_bytes()).expect("a spec");
    let pointers = texts_in(&serde_json::to_value(&full).expect("JSON"), "");
    assert_eq!(pointers, texts_in(&document, ""), "a text is missing in this test");
    for pointer in pointers {
        for character in ['\0', '\u{8}', '\t', '\n', '\u{b}', '\r', '\u{1b}', '\u{7f}', '\u{85}', '\u{9f}'] {
            let mut changed = document.clone();
            let text = changed.pointer_mut(&pointer).expect("a text");
            *text = format!("{}{character}x", text.as_str().expect("text")).into();
            let allowed = pointer.starts_with("/description") && "\t\n\r".contains(character);
            let expected = if allowed { vec![] } else { vec![pointer.clone()] };
            assert_eq!(refused_at(&changed), expected, "{character:?}");
        }
    }
}

#[test]
fn a_free_sku_needs_no_payment_page() {
    let mut free = spec();
    free.skus[0].price = 0;
    for (checkout, refused) in
        [(Checkout::None, vec![]), (Checkout::Form, vec![]), (Checkout::Provider, vec!["/skus/0/price"])]
    {
        free.checkout = checkout;
        let pointers: Vec<_> = free.validate().into_iter().map(|error| error.pointer).collect();
        assert_eq!(pointers, refused, "{checkout:?}");
    }
}

#[test]
fn an_amount_of_2_to_the_53_or_more_is_refused() {
    let mut expensive = spec();
    (expensive.skus[0].price, expensive.per_user) = (1_000_000_000_000, 9_007);
    assert_eq!(expensive.validate(), []);
    expensive.per_user = 9_008;
    let pointers: Vec<_> = expensive.validate().into_iter().map(|error| error.pointer).collect();
    assert_eq!(pointers, ["/skus/0/price"]);
}

#[test]
fn an_array_in_place_of_an_object_is_refused_at_any_depth() {
    let text = serde_json::to_string(&spec()).expect("json");
    let sku = r#"{"sku":"a","name":"A","image":"","price":100,"currency":"EUR","total":10}"#;
    for (object, list, pointer) in [
        (r#""eligibility":{"members_only":false,"min_level":0,"allow":[]}"#, r#""eligibility":[true]"#, "/eligibility"),
        (r#"{"count":5,"seconds":1}"#, "[5,1]", "/limits/all"),
        (sku, r#"["a","A","",100,"EUR",10]"#, "/skus/0"),
    ] {
        assert!(text.contains(object), "{text}");
        let problem = body::parse::<ActivitySpec>(text.replace(object, list).as_bytes()).expect_err(list);
        assert_eq!(problem.errors[0].pointer, pointer, "{}", problem.detail);
        assert!(problem.detail.ends_with("invalid type: sequence, expected an object"), "{}", problem.detail);
    }
}
