//! Shows buyers their orders (D5, D6).

mod list;
mod order;
mod routes;

platform::http_service!(routes::route, cors_below = Some("/api/"));
