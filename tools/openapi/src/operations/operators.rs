//! What operators call.

use domain::{
    activity::{ActivitySpec, Announcement, Sku},
    api::{
        Page,
        operators::{
            Ban, Banned, CancelOrder, CodesAdded, DismissedLetter, Erased, EventsReplayed, ExtendOrder, ListedBan,
            RefundOrder, ReplayEvents, Requeued, Restock, Shedding, SheddingChanged, Strikes,
        },
    },
    http::{problem::Code, routes::Admin},
    ids::{ActivityId, UserId},
    order::OrderStatus,
    presale::MakeCodes,
    schema::EventType,
};
use operations::{
    commands::{
        audit::Audit,
        documents::{
            Events, ExportedOrder, FoundOrder, ListedSale, OrderDetails, PersonData, Rebuilt, ResolvedCallback,
            RunningRebuild, Stats,
        },
        inbox::InboxItem,
    },
    ledger::{history::HistoryEntry, operator_changes::OperatorChange},
};
use orders::{
    dead_letters::DeadLetter,
    ledger::{
        events::{EventEndpoint, EventRecord, EventState},
        order_search::STATUSES,
    },
};
use payments::ledger::{callback_rows::Callback, refunds::Refund};
use sale::ledger::activities::Activity;
use serde_json::json;

use super::buyers::if_none_match;
use crate::{examples, operation::Operation, schemas::Schemas};

pub fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    let mut operations = activities(schemas);
    operations.append(&mut orders(schemas));
    operations.append(&mut events(schemas));
    operations.append(&mut users(schemas));
    operations.push(
        admin(Admin::Inbox, "adminInbox", "What needs a person, oldest first: up to 100 items")
            .describe("What is alike is one item. Those of which nobody noted the time come first.")
            .returns(200, "The items; `next` is null.", schemas.response::<Page<InboxItem>>()),
    );
    operations.push(
        admin(Admin::ListChanges, "adminListChanges", "What operators changed, newest first")
            .query(
                "activity",
                "Only changes of this activity, its SKUs and its orders.",
                schemas.response::<ActivityId>(),
            )
            .paged(50, 50)
            .returns(200, "A page of changes.", schemas.response::<Page<OperatorChange>>()),
    );
    operations
}

fn admin(endpoint: Admin, id: &'static str, summary: &'static str) -> Operation {
    let codes = [Code::Forbidden, Code::InvalidRequest];
    Operation::new(endpoint, id, summary).tag("admin").secured_by("adminToken").refuses(&codes)
}

fn activities(schemas: &mut Schemas) -> Vec<Operation> {
    let activity = schemas.response::<Activity>();
    // Every change of an activity whose gate is gone rebuilds it.
    let change = |endpoint, id, summary| {
        admin(endpoint, id, summary)
            .returns(200, "The activity.", activity.clone())
            .returns_component(202, "Rebuilding")
            .refuses(&[Code::StateConflict])
    };
    let transition = |endpoint, id, summary| change(endpoint, id, summary).refuses(&[Code::NotFound]);
    let if_match = json!({
        "name": "If-Match", "in": "header",
        "description": "The activity's `version` as it was read, in quotes, `\"0\"` for none: if it differs by now, nothing changes (`state_conflict`).",
        "schema": { "type": "string", "pattern": "^\"[0-9]{1,18}\"$" },
    });
    let epoch = json!({ "type": "integer", "format": "int64", "minimum": 1 });
    let csv = json!({ "type": "string", "examples": ["code,max_users\r\nK7Q2M9XWDA,1\r\n"] });
    vec![
        admin(Admin::ListActivities, "adminListActivities", "All activities, drafts included, newest start first")
            .describe("At most 200: the 150 that end next, and the 50 that ended last.")
            .paged(200, 200)
            .parameter(if_none_match())
            .returns_with(
                200,
                "A page of activities.",
                &[("etag", "ETag")],
                Some(("application/json", schemas.response::<Page<ListedSale>>())),
            )
            .returns_with(304, "The activities are as the caller's copy.", &[("etag", "ETag")], None),
        admin(Admin::GetActivity, "adminGetActivity", "An activity")
            .parameter(if_none_match())
            .returns_with(
                200,
                "The activity; the tag is its version.",
                &[("etag", "ETag")],
                Some(("application/json", activity.clone())),
            )
            .returns_with(304, "The activity is as the caller's copy.", &[("etag", "ETag")], None)
            .refuses(&[Code::NotFound]),
        change(
            Admin::PutActivity,
            "adminPutSale",
            "Create an activity, replace a draft, or change a published activity where that is safe",
        )
        .describe(
            "A total is never less than what is held and sold, and a published activity keeps its SKUs. Its totals change \
             by a restock, or with `If-Match`: without it, other totals are a `state_conflict`.",
        )
        .parameter(if_match)
        .body(true, schemas.strict_request::<ActivitySpec>())
        .example(examples::spec())
        .example_of(200, examples::activity()),
        admin(Admin::DeleteActivity, "adminDeleteActivity", "Delete a draft or a rehearsal")
            .describe(
                "A rehearsal must be closed, with nothing of it alive, and each payment the sandbox's or given back: else the \
                 `detail` says what is open. Sweeps erase its orders, whatever `retention_days` is.",
            )
            .returns_with(204, "It is deleted.", &[], None)
            .refuses(&[Code::NotFound, Code::StateConflict]),
        transition(Admin::Publish, "adminPublish", "Publish an activity: gate and stock are loaded")
            .refuses(&[Code::NotReady]),
        transition(Admin::Pause, "adminPause", "Pause an activity"),
        transition(Admin::Resume, "adminResume", "Resume a paused activity").refuses(&[Code::NotReady]),
        transition(Admin::Close, "adminClose", "Close an activity permanently"),
        transition(Admin::PutAnnouncement, "adminAnnounce", "Set a word to everybody who looks at an activity")
            .describe("Plain text by language; an empty object removes it. The gate shows it.")
            .body(true, schemas.strict_request::<Announcement>()),
        transition(
            Admin::RotateStartKey,
            "adminRotateStartKey",
            "Make a new start key: the old one is refused from now on",
        ),
        admin(Admin::Restock, "adminRestock", "Add units, or take unsold ones away")
            .body(true, schemas.strict_request::<Restock>())
            .example(json!({ "by": 20, "from": 100 }))
            .returns(200, "The SKU.", schemas.response::<Sku>())
            .example_of(200, examples::sku(120))
            .returns_component(202, "Rebuilding")
            .refuses(&[Code::NotFound, Code::StateConflict]),
        admin(Admin::ListCodes, "adminListCodes", "Export the presale codes of an activity")
            .returns_with(200, "All codes, how many users each has room for, and how many it has.", &[], Some(("text/csv", csv.clone())))
            .refuses(&[Code::NotFound]),
        admin(Admin::MakeCodes, "adminMakeCodes", "Make presale codes")
            .describe("Codes of 50 random bits. A repeated request makes more.")
            .body(true, schemas.strict_request::<MakeCodes>())
            .returns(200, "How many there are.", schemas.response::<CodesAdded>())
            .refuses(&[Code::NotFound, Code::StateConflict]),
        admin(Admin::AddCodes, "adminAddCodes", "Add presale codes from a CSV file")
            .describe(
                "Lines of `code,max_users`, without `max_users` for one user each. Codes are 6 to 40 letters and digits; \
                 spaces, hyphens and case do not matter. Those that are there stay as they are.",
            )
            .body_with(true, "text/csv", csv)
            .returns(200, "How many there are.", schemas.response::<CodesAdded>())
            .refuses(&[Code::NotFound, Code::StateConflict]),
        admin(Admin::RemoveCode, "adminRemoveCode", "Take a presale code back: its users get no further ticket with it")
            .returns_with(204, "It is gone.", &[], None)
            .refuses(&[Code::NotFound]),
        admin(Admin::Stats, "adminStats", "Live statistics")
            .returns(200, "The statistics.", schemas.response::<Stats>())
            .refuses(&[Code::NotFound]),
        admin(Admin::History, "adminHistory", "How the stock of an activity went")
            .describe(
                "The newest entries, and `next` for those before them; in a page, the oldest first. Each sweep adds an \
                 entry for a SKU whose units changed. Of more than 720 of a SKU, each second one of \
                 the older half is left out.",
            )
            .paged(3_600, 3_600)
            .returns(200, "A page of entries.", schemas.response::<Page<HistoryEntry>>())
            .refuses(&[Code::NotFound]),
        admin(Admin::Audit, "adminAudit", "The invariants, Redis against the ledger")
            .returns(200, "The audit.", schemas.response::<Audit>())
            .refuses(&[Code::NotFound]),
        admin(
            Admin::ListOrders,
            "adminListOrders",
            "The orders of an activity in the ledger, newest first, for an export",
        )
        .paged(1_000, 1_000)
        .returns(200, "A page of orders.", schemas.response::<Page<ExportedOrder<'_>>>())
        .refuses(&[Code::NotFound]),
        admin(
            Admin::Rebuild,
            "adminRebuild",
            "Rebuild Redis from the ledger, unless the activity is open with a complete gate",
        )
        .describe(
            "A call works for 5 s and answers `202` if there is more to do: repeat it with the `epoch` of that \
                 answer until it answers `200`. Sweeps continue a rebuild that no call continues for 10 s.",
        )
        .query(
            "epoch",
            "The epoch of the rebuild to continue, as the last call returned it. Without it, a rebuild that is done \
                 by then starts again.",
            epoch,
        )
        .returns(200, "Done.", schemas.response::<Rebuilt>())
        .returns(202, "Not done yet.", schemas.response::<RunningRebuild>())
        .refuses(&[Code::NotFound, Code::StateConflict]),
    ]
}

fn orders(schemas: &mut Schemas) -> Vec<Operation> {
    let resolved = schemas.response::<ResolvedCallback>();
    let resolve = |endpoint, id, summary| {
        admin(endpoint, id, summary).returns(200, "Done.", resolved.clone()).refuses(&[Code::NotFound])
    };
    let order = schemas.response::<ExportedOrder<'_>>();
    let change_order = |endpoint, id, summary| {
        let refused = [Code::NotFound, Code::StateConflict];
        admin(endpoint, id, summary).returns(200, "The order.", order.clone()).refuses(&refused)
    };
    vec![
        admin(
            Admin::ListDeadLetters,
            "adminListDeadLetters",
            "Messages that could not be written: first those that wait for an operator, the newest first of each",
        )
        .paged(200, 200)
        .returns(200, "A page of letters.", schemas.response::<Page<DeadLetter>>()),
        admin(Admin::ReplayDeadLetter, "adminReplayDeadLetter", "Put a dead letter back into the queue")
            .returns(202, "It is queued.", schemas.response::<Requeued>())
            .refuses(&[Code::NotFound, Code::StateConflict]),
        admin(Admin::DismissDeadLetter, "adminDismissDeadLetter", "Take a dead letter off the list; its order stays failed")
            .returns(200, "It is dismissed.", schemas.response::<DismissedLetter>())
            .refuses(&[Code::NotFound]),
        find_orders(schemas),
        admin(
            Admin::GetOrder,
            "adminGetOrder",
            "An order with its buyer, address, callbacks, refunds, events and timeline",
        )
        .returns(200, "The order.", schemas.response::<OrderDetails<'_>>())
        .refuses(&[Code::NotFound]),
        change_order(Admin::CancelOrder, "adminCancelOrder", "Cancel an unpaid order; it is no strike")
            .body(true, schemas.strict_request::<CancelOrder>()),
        admin(Admin::RefundOrder, "adminRefundOrder", "Give back what is left of an order's payment, or a part")
            .describe(
                "A part keeps the order paid, until the parts are all of it. A refund with an `amount` needs the header: \
                 repeated with the same amount, it changes nothing; with another one it is a `state_conflict`.",
            )
            .parameter(json!({
                "name": "Idempotency-Key", "in": "header", "description": "Names the request; required with an `amount`.",
                "schema": { "type": "string", "minLength": 1, "maxLength": 200 },
            }))
            .body(true, schemas.strict_request::<RefundOrder>())
            .returns(202, "The order.", schemas.response::<ExportedOrder<'_>>())
            .refuses(&[Code::NotFound, Code::StateConflict]),
        change_order(Admin::ExtendOrder, "adminExtendOrder", "Give a buyer more time to pay")
            .body(true, schemas.strict_request::<ExtendOrder>()),
        admin(Admin::ListCallbacks, "adminListCallbacks", "Payment callbacks that wait for an operator, newest first")
            .paged(200, 200)
            .returns(200, "A page of callbacks.", schemas.response::<Page<Callback>>()),
        resolve(Admin::ReplayCallback, "adminReplayCallback", "Apply a parked callback again"),
        resolve(Admin::RefundCallback, "adminRefundCallback", "Refund the payment of a parked callback")
            .refuses(&[Code::StateConflict]),
        resolve(Admin::DismissCallback, "adminDismissCallback", "Dismiss a parked callback"),
        admin(
            Admin::ListRefunds,
            "adminListRefunds",
            "Refunds that no provider has confirmed: those of orders, then those of overpayments, then parts",
        )
        .paged(200, 200)
        .returns(200, "A page of refunds.", schemas.response::<Page<Refund>>()),
    ]
}

fn find_orders(schemas: &mut Schemas) -> Operation {
    let (activity, user) = (schemas.response::<ActivityId>(), schemas.response::<UserId>());
    let status = json!({ "type": "string", "enum": STATUSES.map(OrderStatus::as_str) });
    let code = json!({ "type": "string", "examples": ["6N0K-1R8W"] });
    let time = json!({ "type": "string", "format": "date-time" });
    admin(Admin::FindOrders, "adminFindOrders", "Orders of an activity, of a buyer, or with a code")
        .describe(
            "At least one of `activity`, `user` and `code` is needed. The newest orders come first; with `status` or \
             `updated_since`, those of an activity are sorted by their last change, after those that wait for payment.",
        )
        .query("activity", "The activity.", activity)
        .query("status", "The status.", status)
        .query("user", "The buyer.", user)
        .query(
            "code",
            "The code that the buyer sees, in any case, with or without the hyphen. Orders may share one.",
            code,
        )
        .query("updated_since", "The orders that changed at this time, or later.", time)
        .query(
            "addresses",
            "Whether each order has its delivery address. The log notes how many were read.",
            json!({ "type": "boolean" }),
        )
        .query(
            "books",
            "The payments, refunds and disputes of the orders instead, one a line: a row of CSV, or an object. Only the first \
             page of CSV has the columns' names. Needs the role `read`.",
            json!({ "type": "string", "enum": ["csv", "jsonl"] }),
        )
        .paged(200, 200)
        .returns_with(
            200,
            "A page of orders, or of their books.",
            &[("link", "NextPage")],
            Some(("application/json", schemas.response::<Page<FoundOrder<'_>>>())),
        )
        .or_as("text/csv", json!({ "type": "string" }))
        .or_as("application/jsonl", json!({ "type": "string" }))
}

fn events(schemas: &mut Schemas) -> Vec<Operation> {
    vec![
        admin(Admin::ListEvents, "adminListEvents", "The endpoint of events, how many wait, and their deliveries")
            .query("state", "The state, `failed` if it is absent.", schemas.response::<EventState>())
            .query("type", "The type.", schemas.response::<EventType>())
            .paged(200, 200)
            .returns(200, "The endpoint, and a page of events, newest first.", schemas.response::<Events>()),
        admin(Admin::TestEvents, "adminTestEvents", "Send an event of the type `test` with the next sweep, once")
            .returns(202, "The event.", schemas.response::<EventRecord>())
            .refuses(&[Code::StateConflict]),
        admin(Admin::ReplayEvents, "adminReplayEvents", "Send the events of an order again, or all that failed")
            .body(true, schemas.strict_request::<ReplayEvents>())
            .returns(202, "How many are due again.", schemas.response::<EventsReplayed>()),
        admin(Admin::EnableEvents, "adminEnableEvents", "Resume delivery to an endpoint that was gone or busy")
            .returns(200, "The endpoint.", schemas.response::<EventEndpoint>()),
    ]
}

fn users(schemas: &mut Schemas) -> Vec<Operation> {
    let (ban, banned) = (schemas.strict_request::<Ban>(), schemas.response::<Banned>());
    let set = |endpoint, id, summary| {
        admin(endpoint, id, summary).body(true, ban.clone()).returns(200, "The ban.", banned.clone())
    };
    let lift = |endpoint, id, summary| admin(endpoint, id, summary).returns_with(204, "There is none now.", &[], None);
    vec![
        admin(Admin::ListBans, "adminListBans", "The bans by operators that are in force, sorted by kind and name")
            .paged(200, 200)
            .returns(200, "A page of bans.", schemas.response::<Page<ListedBan>>()),
        set(Admin::BanUser, "adminBanUser", "Ban a user from every activity"),
        lift(Admin::LiftUserBan, "adminUnbanUser", "Lift the ban of a user"),
        set(Admin::BanAddress, "adminBanIp", "Ban an address from every activity"),
        lift(Admin::LiftAddressBan, "adminUnbanIp", "Lift the ban of an address"),
        admin(Admin::GetStrikes, "adminGetStrikes", "Strikes of a user").returns(
            200,
            "The strikes.",
            schemas.response::<Strikes>(),
        ),
        lift(Admin::ClearStrikes, "adminClearStrikes", "Clear a user's strikes"),
        admin(Admin::GetUser, "adminGetUser", "What the ledger keeps about a user")
            .describe("Orders with their addresses and books, in pages; strikes, ban and presale codes.")
            .paged(200, 200)
            .returns(200, "A page of it.", schemas.response::<PersonData<'_>>()),
        admin(Admin::EraseUser, "adminEraseUser", "Erase what no law obliges the shop to keep about a user")
            .describe(
                "Addresses, but for orders that wait for payment or a refund; strikes; presale codes of sales that ended.",
            )
            .returns(200, "What was erased.", schemas.response::<Erased>()),
        admin(Admin::GetShedding, "adminIsShed", "Whether load is shed").returns(
            200,
            "The switch.",
            schemas.response::<Shedding>(),
        ),
        admin(
            Admin::PutShedding,
            "adminShed",
            "Shed load: only paying, cancelling and polling are served while it is on",
        )
        .body(true, schemas.strict_request::<Shedding>())
        .returns(200, "Done.", schemas.response::<SheddingChanged>()),
    ]
}

#[cfg(test)]
mod tests {
    use domain::http::routes::Endpoint as _;

    use super::*;

    #[test]
    fn the_functions_take_the_parameters_and_bodies_that_are_documented() {
        let operations = operations(&mut Schemas::new());
        for (endpoint, route) in Admin::ALL.iter().zip(Admin::ROUTES) {
            let of_route = |it: &&Operation| *it.method() == route.method && it.pattern() == route.pattern;
            let document = operations.iter().find(of_route).expect(route.pattern).to_json();
            let parameters = document["parameters"].as_array().cloned().unwrap_or_default();
            let queries = parameters.iter().filter(|parameter| parameter["in"] == "query");
            let documented: Vec<_> = queries.map(|query| query["name"].as_str().expect("a name")).collect();
            assert_eq!(documented, endpoint.query_parameters(), "{endpoint:?}");
            assert_eq!(document["requestBody"].is_object(), endpoint.takes_body(), "{endpoint:?}");
        }
    }
}
