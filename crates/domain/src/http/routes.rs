//! The routes of every function: the methods, paths and endpoints of the HTTP API.
//!
//! [`find`] dispatches a request by its function's table. A path without a route is `not_found`; a method that the
//! path does not have is `method_not_allowed`, with the path's methods in `Allow`. A test compares the tables with
//! `spin.toml`.

use http::Method;

use crate::http::problem::{Code, Problem};

const MAX_PARAMS: usize = 2;

/// A method of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The method. A route for `GET` also takes `HEAD`.
    pub method: Method,
    /// The path, as in `spin.toml`: `:name` is one segment that is not empty, a last `...` is any rest.
    pub pattern: &'static str,
}

/// The endpoints of a function.
pub trait Endpoint: Copy + PartialEq + 'static {
    /// The route of each endpoint in [`Endpoint::ALL`].
    const ROUTES: &'static [Route];
    /// All endpoints.
    const ALL: &'static [Self];

    /// The endpoint's route.
    #[must_use]
    fn route(self) -> Option<&'static Route> {
        let mut routes = Self::ALL.iter().zip(Self::ROUTES);
        routes.find_map(|(endpoint, route)| (*endpoint == self).then_some(route))
    }

    /// The path of the endpoint's route, with names in place of parameters.
    #[must_use]
    fn pattern(self) -> &'static str {
        self.route().map_or("", |route| route.pattern)
    }
}

macro_rules! routes {
    ($($(#[$doc:meta])* $function:literal $name:ident { $($endpoint:ident = $method:ident $pattern:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub enum $name { $(#[doc = concat!("`", stringify!($method), " ", $pattern, "`")] $endpoint,)* }

            impl Endpoint for $name {
                const ROUTES: &'static [Route] = &[$(Route { method: Method::$method, pattern: $pattern },)*];
                const ALL: &'static [Self] = &[$($name::$endpoint,)*];
            }
        )*

        /// The routes of every function, by the function's name.
        pub const TABLES: &[(&str, &[Route])] = &[$(($function, $name::ROUTES),)*];
    };
}

routes! {
    /// What visitors see of activities.
    "activity" Activity {
        List = GET "/api/activities",
        Info = GET "/api/activities/:activity",
        GateJson = GET "/api/activities/:activity/gate.json",
        GateScript = GET "/api/activities/:activity/gate.js",
        Calendar = GET "/api/activities/:activity/calendar.ics",
    }
    /// From the human check to the ticket.
    "admission" Admission {
        Challenge = POST "/api/activities/:activity/challenge",
        Ticket = POST "/api/activities/:activity/ticket",
    }
    /// The hot path.
    "reserve" Reserve {
        Order = POST "/api/activities/:activity/orders",
    }
    /// A buyer's orders.
    "order-status" BuyerOrders {
        List = GET "/api/orders",
        Order = GET "/api/orders/:order_no",
    }
    /// What a buyer does with an order.
    "checkout" Checkout {
        Pay = POST "/api/orders/:order_no/checkout",
        Cancel = POST "/api/orders/:order_no/cancel",
        Refund = POST "/api/orders/:order_no/refund",
    }
    /// Callbacks of payment providers.
    "payment-callback" PaymentCallback {
        Standard = POST "/api/payments/webhook",
        Stripe = POST "/api/payments/stripe",
    }
    /// What cron calls.
    "expiry-sweeper" ExpirySweeper {
        Sweep = POST "/api/tasks/sweep",
    }
    /// What operators call.
    "admin" Admin {
        ListActivities = GET "/api/admin/activities",
        GetActivity = GET "/api/admin/activities/:activity",
        PutActivity = PUT "/api/admin/activities/:activity",
        DeleteActivity = DELETE "/api/admin/activities/:activity",
        Publish = POST "/api/admin/activities/:activity/publish",
        Pause = POST "/api/admin/activities/:activity/pause",
        Resume = POST "/api/admin/activities/:activity/resume",
        Close = POST "/api/admin/activities/:activity/close",
        PutAnnouncement = PUT "/api/admin/activities/:activity/announcement",
        RotateStartKey = POST "/api/admin/activities/:activity/rotate-start-key",
        Restock = POST "/api/admin/activities/:activity/skus/:sku/restock",
        ListCodes = GET "/api/admin/activities/:activity/codes",
        MakeCodes = POST "/api/admin/activities/:activity/codes",
        AddCodes = PUT "/api/admin/activities/:activity/codes",
        RemoveCode = DELETE "/api/admin/activities/:activity/codes/:code",
        Stats = GET "/api/admin/activities/:activity/stats",
        History = GET "/api/admin/activities/:activity/history",
        Audit = GET "/api/admin/activities/:activity/audit",
        ListOrders = GET "/api/admin/activities/:activity/orders",
        Rebuild = POST "/api/admin/activities/:activity/rebuild",
        ListDeadLetters = GET "/api/admin/dead-letters",
        ReplayDeadLetter = POST "/api/admin/dead-letters/:order_no/replay",
        DismissDeadLetter = POST "/api/admin/dead-letters/:order_no/dismiss",
        FindOrders = GET "/api/admin/orders",
        GetOrder = GET "/api/admin/orders/:order_no",
        CancelOrder = POST "/api/admin/orders/:order_no/cancel",
        RefundOrder = POST "/api/admin/orders/:order_no/refund",
        ExtendOrder = POST "/api/admin/orders/:order_no/extend",
        ListCallbacks = GET "/api/admin/callbacks",
        ReplayCallback = POST "/api/admin/callbacks/:id/replay",
        RefundCallback = POST "/api/admin/callbacks/:id/refund",
        DismissCallback = POST "/api/admin/callbacks/:id/dismiss",
        ListRefunds = GET "/api/admin/refunds",
        ListEvents = GET "/api/admin/events",
        TestEvents = POST "/api/admin/events/test",
        ReplayEvents = POST "/api/admin/events/replay",
        EnableEvents = POST "/api/admin/events/enable",
        ListBans = GET "/api/admin/bans",
        BanUser = PUT "/api/admin/bans/user/:user",
        LiftUserBan = DELETE "/api/admin/bans/user/:user",
        BanAddress = PUT "/api/admin/bans/ip/:ip",
        LiftAddressBan = DELETE "/api/admin/bans/ip/:ip",
        GetStrikes = GET "/api/admin/strikes/:user",
        ClearStrikes = DELETE "/api/admin/strikes/:user",
        GetUser = GET "/api/admin/users/:user",
        EraseUser = DELETE "/api/admin/users/:user",
        GetShedding = GET "/api/admin/shed",
        PutShedding = PUT "/api/admin/shed",
        ListChanges = GET "/api/admin/changes",
        Inbox = GET "/api/admin/inbox",
    }
    /// Probes and metrics.
    "health" Health {
        Live = GET "/healthz",
        Ready = GET "/readyz",
        Metrics = GET "/metrics",
    }
    /// Sign-in and a payment provider for development.
    "sandbox" Sandbox {
        SignIn = POST "/sandbox/sign-in",
        PaymentPage = GET "/sandbox/pay/:session",
        Pay = POST "/sandbox/pay/:session",
        Payments = POST "/sandbox/payments",
    }
    /// Pages and assets.
    "static-files" StaticFiles {
        File = GET "/...",
    }
}

impl Admin {
    /// The parameters that the query may have.
    #[must_use]
    pub fn query_parameters(self) -> &'static [&'static str] {
        match self {
            Self::ListActivities
            | Self::ListOrders
            | Self::History
            | Self::ListDeadLetters
            | Self::ListCallbacks
            | Self::ListRefunds
            | Self::GetUser
            | Self::ListBans => &["before", "limit"],
            Self::ListChanges => &["activity", "before", "limit"],
            Self::FindOrders => {
                &["activity", "status", "user", "code", "updated_since", "addresses", "books", "before", "limit"]
            }
            Self::ListEvents => &["state", "type", "before", "limit"],
            Self::Rebuild => &["epoch"],
            _ => &[],
        }
    }

    /// Whether the route takes a body.
    #[must_use]
    pub fn takes_body(self) -> bool {
        use Admin::{
            AddCodes, BanAddress, BanUser, CancelOrder, ExtendOrder, MakeCodes, PutActivity, PutAnnouncement,
            PutShedding, RefundOrder, ReplayEvents, Restock,
        };
        let of_orders = matches!(self, CancelOrder | RefundOrder | ExtendOrder);
        let of_sales = matches!(self, PutActivity | PutAnnouncement | Restock | MakeCodes | AddCodes);
        of_orders || of_sales || matches!(self, ReplayEvents | BanUser | BanAddress | PutShedding)
    }
}

/// Returns the endpoint of a request, and the values of the path's parameters, not percent-decoded. Unused values are
/// empty.
///
/// # Errors
/// `not_found` if no route of the function has the path, else `method_not_allowed` if none has the method.
pub fn find<'p, E: Endpoint>(method: &Method, path: &'p str) -> Result<(E, [&'p str; MAX_PARAMS]), Problem> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let mut allow = Vec::new();
    for (endpoint, route) in E::ALL.iter().zip(E::ROUTES) {
        if let Some(params) = match_path(route.pattern, path) {
            if route.method == *method {
                return Ok((*endpoint, params));
            }
            allow.push(route.method.as_str());
        }
    }
    if allow.is_empty() { Err(no_such_route()) } else { Err(method_not_allowed(&allow)) }
}

/// Returns the parameters' values if the path matches the pattern exactly.
fn match_path<'p>(pattern: &str, path: &'p str) -> Option<[&'p str; MAX_PARAMS]> {
    let mut params = [""; MAX_PARAMS];
    let mut unused = params.iter_mut();
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) | (Some("..."), Some(_)) => return Some(params),
            (Some(name), Some(value)) if name.starts_with(':') && !value.is_empty() => *unused.next()? = value,
            (Some(expected), Some(segment)) if expected == segment => {}
            _ => return None,
        }
    }
}

/// The problem of a path that is no route.
#[must_use]
pub fn no_such_route() -> Problem {
    Problem::new(Code::NotFound, "No such route.")
}

/// `HEAD` is added to `GET`.
fn method_not_allowed(allow: &[&str]) -> Problem {
    let allow = allow.join(", ").replace("GET", "GET, HEAD");
    let mut problem = Problem::new(Code::MethodNotAllowed, format!("This route takes {allow}."));
    problem.headers.push(("allow", allow));
    problem
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn every_function_has_the_routes_of_the_manifest() {
        let manifest: toml::Table = include_str!("../../../../spin.toml").parse().expect("spin.toml");
        let mut triggers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for trigger in manifest["trigger"]["http"].as_array().expect("HTTP triggers") {
            let text = |name: &str| trigger[name].as_str().expect("text");
            triggers.entry(text("component")).or_default().push(text("route"));
        }
        let functions = TABLES.iter().map(|(function, _)| *function).collect::<BTreeSet<_>>();
        assert_eq!(functions, triggers.keys().copied().collect());
        for (function, routes) in TABLES {
            let patterns: BTreeSet<&str> = routes.iter().map(|route| route.pattern).collect();
            let triggers = &triggers[function];
            let covers = |trigger: &str, pattern: &str| match trigger.strip_suffix("...") {
                Some(prefix) => pattern.starts_with(prefix),
                None => pattern == trigger,
            };
            for pattern in &patterns {
                assert!(triggers.iter().any(|it| covers(it, pattern)), "spin.toml: {function} lacks {pattern}");
            }
            for trigger in triggers {
                assert!(patterns.iter().any(|it| covers(trigger, it)), "routes.rs: {function} lacks {trigger}");
            }
        }
    }
}
