//! Which manifests are accepted and which are refused.

use super::*;

const MINIMAL: &str = r#"
    spin_manifest_version = 2
    [application]
    name = "shop"
    [[trigger.http]]
    route = "/..."
    component = "page"
    [component.page]
    source = "page.wasm"
"#;

fn parse(text: &str) -> anyhow::Result<App> {
    App::parse(text, Path::new("/app"))
}

fn refusal(text: &str) -> String {
    format!("{:#}", parse(text).expect_err("the manifest was accepted"))
}

#[test]
fn a_full_manifest_is_parsed() {
    let app = parse(
        r#"
        spin_manifest_version = 2
        [application]
        name = "shop"
        version = "1.0.0"
        description = "sells"
        authors = ["a", "b"]
        [application.trigger.redis]
        address = "{{ redis_url }}"
        [variables]
        redis_url = { required = true, secret = true, description = "where Redis is" }
        greeting = { default = "hi" }
        [[trigger.http]]
        id = "front"
        route = "/api/:id/..."
        component = "front"
        [[trigger.http]]
        route = { private = true }
        component = "back"
        [[trigger.http]]
        route = "/old"
        static_response = { status_code = 301, headers = { location = "/new" } }
        [[trigger.redis]]
        channel = "bell"
        component = { source = "writer.wasm", sqlite_databases = ["default"] }
        [component.front]
        source = "front.wasm"
        description = "what people see"
        files = ["*.html", { source = "static", destination = "/" }]
        exclude_files = ["**/*.map"]
        allowed_outbound_hosts = ["http://back.spin.internal"]
        key_value_stores = ["default"]
        environment = { LOG = "1" }
        variables = { greeting = "{{ greeting }}!" }
        build = { command = "make", watch = ["src/**"] }
        [component.back]
        source = "back.wasm"
        [component.back.build]
        command = ["a", "b"]
        workdir = "x"
        "#,
    )
    .unwrap();
    assert_eq!(app.trigger_types(), ["http", "redis"]);
    assert_eq!(app.http_components().into_iter().collect::<Vec<_>>(), ["back", "front"]);
    assert_eq!(app.redis[0].component, "redis-trigger1-component");
    assert_eq!(app.components["redis-trigger1-component"].sqlite_databases, ["default"]);
    assert_eq!(app.components["front"].source, Path::new("/app/front.wasm"));
    assert_eq!(app.variables["redis_url"], None);
    assert_eq!(app.redis_address, "{{ redis_url }}");
    assert!(matches!(app.http[2].target, HttpTarget::Static(_)));
}

#[test]
fn unknown_keys_are_refused_and_named() {
    for (section, key) in [
        ("", "surprise = 1"),
        ("[application.extra]", "surprise = 1"),
        ("[component.other]", "source = \"a\"\nsurprise = 1"),
        ("[[trigger.http]]", "route = \"/a\"\ncomponent = \"page\"\nsurprise = 1"),
        ("[variables.a]", "default = \"1\"\nsurprise = 1"),
        ("[[component.page.files]]", "source = \"a\"\ndestination = \"b\"\nsurprise = 1"),
    ] {
        let text =
            if section.is_empty() { format!("{key}\n{MINIMAL}") } else { format!("{MINIMAL}\n{section}\n{key}") };
        let error = refusal(&text);
        assert!(error.contains("surprise") || error.contains("extra") || error.contains("files"), "{section}: {error}");
    }
}

#[test]
fn other_trigger_types_are_refused_with_advice() {
    let error = refusal(&MINIMAL.replace("trigger.http", "trigger.cron"));
    assert!(error.contains("cron") && error.contains("plugin"), "{error}");
}

#[test]
fn a_trigger_needs_a_component_that_exists() {
    let error = refusal(&MINIMAL.replace("component = \"page\"", "component = \"nope\""));
    assert!(error.contains("nope") && error.contains("page"), "{error}");
}

#[test]
fn selected_components_keep_their_triggers_and_the_rest_is_removed() {
    let text = format!(
        "{MINIMAL}\n\
        [[trigger.http]]\nroute = \"/cart\"\ncomponent = \"cart\"\n\
        [[trigger.redis]]\nchannel = \"bell\"\ncomponent = \"writer\"\n\
        [component.cart]\nsource = \"c.wasm\"\nallowed_outbound_hosts = [\"http://page.spin.internal\", \"{{{{ a }}}}\"]\n\
        [component.writer]\nsource = \"w.wasm\"\n[component.idle]\nsource = \"i.wasm\"\n\
        [variables]\na = {{ default = \"http://a.example\" }}"
    );
    let select = |ids: &[&str]| {
        let mut app = parse(&text).unwrap();
        app.retain(&ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()).map(|()| app)
    };
    let app = select(&["writer"]).unwrap();
    assert_eq!((app.trigger_types(), app.components.len()), (vec!["redis"], 1));
    let app = select(&["cart", "page"]).unwrap();
    assert_eq!((app.trigger_types(), app.http.len()), (vec!["http"], 2));
    for (ids, word) in [(&["nope"][..], "nope"), (&["idle"], "trigger"), (&["cart"], "page.spin.internal")] {
        let error = select(ids).expect_err("the selection was accepted").to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_variable_is_required_or_has_a_default() {
    for bad in ["{}", "{ required = true, default = \"x\" }"] {
        let error = refusal(&format!("{MINIMAL}\n[variables]\na = {bad}"));
        assert!(error.contains("required"), "{error}");
    }
}

#[test]
fn version_1_and_an_application_without_triggers_are_refused() {
    assert!(refusal(&MINIMAL.replace("= 2", "= 1")).contains("must be 2"));
    let without = MINIMAL.split("[[trigger.http]]").next().unwrap();
    assert!(refusal(without).contains("no triggers"));
}

#[test]
fn features_that_only_spin_has_are_refused_by_name() {
    for (line, word) in [
        ("ai_models = [\"llama2-chat\"]", "ai_models"),
        ("dependencies = { \"a:b/c\" = \"1.0\" }", "dependencies"),
        ("allowed_http_hosts = [\"a.example\"]", "allowed_outbound_hosts"),
    ] {
        let error = refusal(&format!("{MINIMAL}\n{line}"));
        assert!(error.contains(word), "{error}");
    }
    let remote = MINIMAL.replace("\"page.wasm\"", "{ url = \"https://a.example\", digest = \"sha256:0\" }");
    assert!(refusal(&remote).contains("source"));
}
