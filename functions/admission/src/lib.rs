//! Issues tickets to signed-in users, after a human check if the activity requires one (B1, B2, B5).

mod challenge;
mod hosted;
mod human_check;
mod precheck;
mod routes;
mod strikes;
mod ticket;

platform::http_service!(routes::route, cors_below = Some("/api/"));
