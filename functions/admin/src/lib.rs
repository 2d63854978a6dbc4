//! Serves operators: activities, stats, audit, bans, dead letters, callbacks, events.

mod activities;
mod bans;
mod books;
mod call;
mod call_log;
mod callbacks;
mod changes;
mod dead_letters;
mod events;
mod history;
mod inbox;
mod order_changes;
mod orders;
mod presale;
mod readiness;
mod routes;
mod shed;
mod stats;

platform::http_service!(routes::route);
