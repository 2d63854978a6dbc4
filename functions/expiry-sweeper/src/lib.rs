//! Expires unpaid orders and finishes interrupted work; called by cron (E3, G3).

mod sweep;

platform::http_service!(sweep::post);
