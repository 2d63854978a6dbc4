//! Lets buyers pay, cancel and request refunds of their orders (E1, E4).

mod cancel;
mod outcome;
mod pay;
mod refund;
mod routes;

platform::http_service!(routes::route, cors_below = Some("/api/"));
