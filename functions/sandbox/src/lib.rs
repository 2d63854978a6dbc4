//! Stands in for the shop's sign-in and a payment provider; for development only.

mod pay;
mod payments;
mod routes;
mod sign_in;

platform::http_service!(routes::route, counts = false);
