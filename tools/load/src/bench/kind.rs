//! What is measured: the floors, and each route with its floor and its goal.

use serde::{Deserialize, Serialize};

/// A floor or a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Floor: answers.
    Hello,
    /// Floor: reads the body of a reservation and answers.
    Body,
    /// Floor: reads the body, and sends one `PING` to Redis.
    Ping,
    /// Floor: reads the body, and inserts one row into the ledger.
    Write,
    Activity,
    Gate,
    Ticket,
    /// A reservation that is accepted.
    Reserve,
    /// A reservation with a ticket that has made its order.
    ReserveAgain,
    /// A reservation that is refused as sold out, from the instance's memory.
    SoldOut,
    /// Order status, with the ticket.
    Status,
    MyOrders,
    Checkout,
    /// A payment callback, with a signature.
    Callback,
    Cancel,
    Stats,
    Audit,
    Sweep,
}

/// What is asked of a route.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// At least this ratio to the floor.
    Ratio(f64),
    /// At least so many requests per second, 99 % of them answered within so many milliseconds.
    Rate { per_second: f64, p99_ms: f64 },
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Hello => "floor: hello world",
            Self::Body => "floor: body",
            Self::Ping => "floor: body, PING",
            Self::Write => "floor: body, INSERT",
            Self::Activity => "activity info",
            Self::Gate => "gate.json",
            Self::Ticket => "ticket",
            Self::Reserve => "reserve",
            Self::ReserveAgain => "reserve, again",
            Self::SoldOut => "reserve, sold out",
            Self::Status => "order status",
            Self::MyOrders => "my orders",
            Self::Checkout => "checkout",
            Self::Callback => "payment callback",
            Self::Cancel => "cancel",
            Self::Stats => "stats",
            Self::Audit => "audit",
            Self::Sweep => "sweep",
        }
    }

    /// Path in tools/floors; `None` for a route of the app.
    pub fn floor_path(self) -> Option<&'static str> {
        match self {
            Self::Hello => Some("/hello"),
            Self::Body => Some("/body"),
            Self::Ping => Some("/ping"),
            Self::Write => Some("/write"),
            _ => None,
        }
    }

    /// The floor that it is compared with.
    pub fn floor(self) -> Option<Self> {
        match self {
            Self::Hello | Self::Body | Self::Ping | Self::Write => None,
            Self::Activity | Self::Gate => Some(Self::Hello),
            Self::SoldOut => Some(Self::Body),
            Self::Checkout | Self::Callback | Self::Cancel => Some(Self::Write),
            _ => Some(Self::Ping),
        }
    }

    /// Whether operators or cron jobs ask for it, one request after the other.
    pub fn is_operators(self) -> bool {
        matches!(self, Self::Stats | Self::Audit | Self::Sweep)
    }

    /// The goal at `connections`, on a PostgreSQL ledger or on SQLite.
    pub fn goal(self, connections: u16, on_postgres: bool) -> Option<Goal> {
        let (per_second, p99_ms) = if on_postgres { (1_000.0, 150.0) } else { (1_500.0, 100.0) };
        match self {
            Self::Activity | Self::Gate => Some(Goal::Ratio(1.0)),
            Self::Ticket => Some(Goal::Ratio(0.6)),
            Self::Reserve => Some(Goal::Ratio(0.7)),
            Self::ReserveAgain => Some(Goal::Ratio(0.85)),
            Self::SoldOut | Self::Status => Some(Goal::Ratio(0.95)),
            Self::Checkout | Self::Callback if connections == 64 => Some(Goal::Rate { per_second, p99_ms }),
            _ => None,
        }
    }
}
