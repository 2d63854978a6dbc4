//! What visitors, probes and the cron job call.

use domain::{
    api::{
        Live, Page, Ready,
        visitors::{ActivityDocument, ListedActivity},
    },
    gate::GateDocument,
    http::{
        problem::Code,
        routes::{Activity, ExpirySweeper, Health},
    },
};
use operations::commands::documents::{NotSwept, Swept};
use serde_json::json;

use crate::{operation::Operation, schemas::Schemas};

pub fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    let script = json!({ "type": "string", "pattern": "^globalThis\\.stampedeGate = " });
    let calendar = json!({ "type": "string", "pattern": "^BEGIN:VCALENDAR" });
    let metrics = json!({ "type": "string", "pattern": "^#" });
    let sweep = json!({ "oneOf": [schemas.response::<Swept<'_>>(), schemas.response::<NotSwept>()] });
    vec![
        Operation::new(Activity::List, "listActivities", "The published activities, newest start first")
            .tag("activities")
            .describe("At most 200: the 150 that end next, and the 50 that ended last. A cache may answer all, whatever `limit`.")
            .paged(200, 200)
            .returns(200, "A page of them; cacheable for a second.", schemas.response::<Page<ListedActivity<'_>>>()),
        Operation::new(Activity::Info, "getActivity", "An activity, its rules, and what is left")
            .tag("activities")
            .returns(200, "The activity; cacheable for a second.", schemas.response::<ActivityDocument<'_>>())
            .refuses(&[Code::NotFound, Code::Ended]),
        Operation::new(
            Activity::GateJson,
            "getGate",
            "Whether the activity is open, what is sold out, and the start key",
        )
        .tag("activities")
        .returns(200, "The gate; cacheable for a second.", schemas.response::<GateDocument>())
        .refuses(&[Code::NotFound, Code::Ended]),
        Operation::new(Activity::GateScript, "getGateScript", "The gate as a script")
            .tag("activities")
            .returns_with(
                200,
                "Sets `globalThis.stampedeGate` to the gate; cacheable for a second.",
                &[],
                Some(("text/javascript", script)),
            )
            .refuses(&[Code::NotFound, Code::Ended]),
        Operation::new(Activity::Calendar, "getCalendar", "The activity as a calendar file")
            .tag("activities")
            .query("lang", "The language of the title.", json!({ "type": "string", "maxLength": 35 }))
            .returns_with(
                200,
                "An event with a reminder ten minutes before the start; cacheable for a second.",
                &[],
                Some(("text/calendar", calendar)),
            )
            .refuses(&[Code::NotFound, Code::Ended]),
        Operation::new(Health::Live, "health", "Whether the instance handles requests")
            .tag("health")
            .returns(200, "It does.", schemas.response::<Live>())
            .never(Code::NotReady)
            .never(Code::Internal),
        Operation::new(Health::Ready, "ready", "Whether the app is ready; with a token, every store by name")
            .tag("health")
            .describe("The members `checks` and a telling `detail` need `admin_token` or `metrics_token`.")
            .returns(200, "It is.", schemas.response::<Ready>()),
        Operation::new(
            Health::Metrics,
            "metrics",
            "Metrics for Prometheus; `stampede_store_up` says which store is unavailable, and its metrics are missing",
        )
        .tag("health")
        .secured_by("adminToken")
        .secured_by("metricsToken")
        .returns_with(200, "Text format 0.0.4.", &[], Some(("text/plain", metrics)))
        .never(Code::NotReady),
        Operation::new(ExpirySweeper::Sweep, "sweep", "Finish what time or a crash left behind")
            .tag("operation")
            .describe("Call it every few seconds. It works for about 10 seconds at most.")
            .secured_by("cronToken")
            .returns(200, "What it did; nothing, while another sweeper is at work.", sweep),
    ]
}
