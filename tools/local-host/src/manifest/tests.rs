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
        address = "{{ doorbell_url }}"
        [variables]
        doorbell_url = { required = true, secret = true, description = "where Redis is" }
        greeting = { default = "hi" }
        [[trigger.http]]
        route = "/api/:id/..."
        component = "front"
        [[trigger.http]]
        route = { private = true }
        component = "back"
        [[trigger.redis]]
        channel = "bell"
        component = "back"
        [component.front]
        source = "front.wasm"
        description = "what people see"
        files = [{ source = "static", destination = "/" }]
        allowed_outbound_hosts = ["http://back.spin.internal"]
        key_value_stores = ["default"]
        variables = { greeting = "{{ greeting }}!" }
        build = { command = "make", watch = ["src/**"] }
        [component.back]
        source = "back.wasm"
        sqlite_databases = ["default"]
        [component.back.build]
        command = "make"
        workdir = "x"
        "#,
    )
    .unwrap();
    assert_eq!(app.trigger_types(), ["http", "redis"]);
    assert_eq!(app.http_components().into_iter().collect::<Vec<_>>(), ["back", "front"]);
    assert_eq!(app.redis_components().into_iter().collect::<Vec<_>>(), ["back"]);
    assert_eq!(app.variables["doorbell_url"], None);
    assert_eq!(app.redis_address, "{{ doorbell_url }}");
}

#[test]
fn what_this_host_does_not_know_is_refused_and_named() {
    for (section, key, name) in [
        ("", "surprise = 1", "surprise"),
        ("[application.tool]", "surprise = 1", "tool"),
        ("[application.trigger.http]", "base = \"/\"", "http"),
        ("[component.other]", "source = \"a\"\nenvironment = { LOG = \"1\" }", "environment"),
        ("[component.other]", "source = \"a\"\nexclude_files = [\"**/*.map\"]", "exclude_files"),
        ("[component.other]", "source = \"a\"\nkey_value_stores = [\"cache\"]", "cache"),
        ("[component.other]", "source = { url = \"https://a.example\", digest = \"sha256:0\" }", "source"),
        ("[component.other]", "source = \"a\"\nfiles = [\"*.html\"]", "files"),
        ("[component.other]", "source = \"a\"\nallowed_outbound_hosts = [\"http://self\"]", "self"),
        ("[[trigger.http]]", "route = \"/a\"\ncomponent = \"page\"\nid = \"a\"", "id"),
        ("[[trigger.http]]", "route = \"/a\"\nstatic_response = { status_code = 301 }", "static_response"),
        ("[[trigger.http]]", "route = { private = false }\ncomponent = \"page\"", "private"),
        ("[[trigger.redis]]", "channel = \"a\"\ncomponent = \"page\"", "address"),
        ("[[trigger.cron]]", "component = \"page\"", "cron"),
        ("[variables.a]", "default = \"1\"\nsurprise = 1", "surprise"),
    ] {
        let text =
            if section.is_empty() { format!("{key}\n{MINIMAL}") } else { format!("{MINIMAL}\n{section}\n{key}") };
        let error = refusal(&text);
        assert!(error.contains(name), "{section} {key}: {error}");
    }
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
        [application.trigger.redis]\naddress = \"redis://a.example\"\n\
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
