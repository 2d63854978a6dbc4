//! Receives payment callbacks from providers (E2, E5).

mod routes;
mod signature;
mod standard;
mod stripe;

platform::http_service!(routes::route);
