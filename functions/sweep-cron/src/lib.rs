//! Calls the sweeper on a schedule (G3).
//!
//! This is a component for Spin's cron trigger plugin and belongs to a separate app (`deploy/cron/spin.toml`). The
//! plugin supports only WASI 0.2, so this function does not use `spin-sdk`.

#![allow(unsafe_code, missing_docs, reason = "the generated bindings are unsafe and undocumented")]

mod post;

wit_bindgen::generate!({
    inline: r#"
        package stampede:sweep-cron;

        world sweep-cron {
            import fermyon:spin/variables@2.0.0;
            use fermyon:spin-cron/cron-types@2.0.0.{metadata, error};
            export handle-cron-event: func(metadata: metadata) -> result<_, error>;
        }

        package fermyon:spin-cron@2.0.0 {
            interface cron-types {
                record metadata { timestamp: u64 }
                variant error { other(string) }
            }
        }

        package fermyon:spin@2.0.0 {
            interface variables {
                variant error { invalid-name(string), undefined(string), provider(string), other(string) }
                get: func(name: string) -> result<string, error>;
            }
        }
    "#,
    generate_all,
});

struct Cron;

export!(Cron);

impl Guest for Cron {
    fn handle_cron_event(_: Metadata) -> Result<(), Error> {
        let get =
            |name| fermyon::spin::variables::get(name).map_err(|error| Error::Other(format!("{name}: {error:?}")));
        let (app, token) = (get("app_url")?, get("cron_token")?);
        match post::post(&app, "/api/tasks/sweep", &token).map_err(Error::Other)? {
            200 => Ok(()),
            status => Err(Error::Other(format!("the sweeper answered {status}"))),
        }
    }
}
