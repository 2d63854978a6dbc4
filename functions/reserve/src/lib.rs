//! Reserves units for a ticket: `POST /api/activities/:activity/orders`, the hot path.

mod order;

platform::http_service!(order::post, cors_below = Some("/api/"));
