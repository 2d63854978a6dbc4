//! Receives payment callbacks from providers (E2, E5).

mod routes;
mod signature;
mod standard;
mod stripe;

// An event of Stripe has the session with all of its metadata.
platform::http_service!(routes::route, max_body_bytes = 64 * 1024);
