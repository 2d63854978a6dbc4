//! Serves operators: activities, stats, audit, bans, dead letters, callbacks, events, health and metrics.

mod activities;
mod bans;
mod call_log;
mod callbacks;
mod changes;
mod dead_letters;
mod events;
mod health;
mod metrics;
mod orders;
mod paging;
mod routes;
mod shed;
mod stats;
mod subjects;

platform::http_service!(routes::route);
