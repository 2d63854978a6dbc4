//! Tickets (B2, B3): short-lived, bound to a user and an activity, verified without I/O.
//!
//! Format: `1.<key>.<activity>.<ULID>.<expiry>.<level>.<user>.<signature>`. The user is base64url, the expiry is in
//! seconds since 1970, and the signature covers everything before it. The ticket's ULID becomes the order's, which
//! makes the ticket the idempotency key of a reservation.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ulid::Ulid;

use crate::{
    ids::{ActivityId, OrderNo, UserId},
    secret,
    signer::Signer,
    time::Millis,
};

/// Maximum length of a ticket, in bytes; longer texts are refused without verification.
pub const MAX_BYTES: usize = 300;

/// How long before the start tickets are issued, in milliseconds.
pub const ISSUED_BEFORE_START_MS: i64 = 30 * 60 * 1000;

/// Lifetime of a ticket that is issued after the start, in milliseconds.
const LIFETIME_MS: i64 = 30 * 60 * 1000;

/// How long after the start every ticket can reserve, in milliseconds.
const VALID_AFTER_START_MS: i64 = 10 * 60 * 1000;

/// Maximum lifetime of a ticket, in milliseconds: of those that are issued first.
pub const MAX_LIFETIME_MS: i64 = ISSUED_BEFORE_START_MS + VALID_AFTER_START_MS;

/// When a ticket expires that is issued at `now`, in whole seconds.
#[must_use]
pub fn expiry(now: Millis, starts_at: Millis, ends_at: Millis) -> Millis {
    let expires_at = now.plus(LIFETIME_MS).max(starts_at.plus(VALID_AFTER_START_MS)).min(ends_at);
    Millis(expires_at.0 / 1000 * 1000)
}

/// The contents of a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The activity.
    pub activity: ActivityId,
    /// The ticket's id, which is also the ULID of its order.
    pub ulid: Ulid,
    /// Expiry, in whole seconds: the ticket reserves before this moment only.
    pub expires_at: Millis,
    /// The user's level when the ticket was issued.
    pub level: i64,
    /// The user.
    pub user: UserId,
}

/// Why a ticket is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// Malformed or too long, its signature is invalid, or its key is no longer configured.
    #[error("The ticket is not one of ours. Ask for a new one.")]
    Forged,
    /// Past its expiry.
    #[error("The ticket has expired. Ask for a new one.")]
    Expired,
    /// Issued for another activity.
    #[error("The ticket is for another sale. Ask for one for this sale.")]
    OtherActivity,
}

impl Ticket {
    /// The number of the order that this ticket makes.
    #[must_use]
    pub fn order_no(&self) -> OrderNo {
        OrderNo::new(self.activity.clone(), self.ulid)
    }
}

/// The ticket secrets: the first one signs, all of them verify (rotation).
pub struct TicketKeys(Vec<(String, Signer)>);

impl TicketKeys {
    /// Reads the secrets of the variable `ticket_secret`: one, or two separated by a space, newest first.
    #[must_use]
    pub fn new(secrets: &str) -> Self {
        let keys = secret::active(secrets).filter_map(|secret| {
            let id = Signer::new(secret, "stampede ticket key id")?.sign("")[..4].to_owned();
            Some((id, Signer::new(secret, "stampede ticket")?))
        });
        Self(keys.collect())
    }

    /// Signs a ticket with the newest secret. `None` if there is no secret.
    #[must_use]
    pub fn issue(&self, ticket: &Ticket) -> Option<String> {
        let (id, signer) = self.0.first()?;
        let body = format!(
            "1.{id}.{}.{}.{}.{}.{}",
            ticket.activity,
            ticket.ulid,
            ticket.expires_at.0 / 1000,
            ticket.level,
            BASE64_URL_SAFE_NO_PAD.encode(ticket.user.as_str())
        );
        let signature = signer.sign(&body);
        Some(format!("{body}.{signature}"))
    }

    /// Verifies a ticket for a reservation in `activity` at `now`.
    ///
    /// # Errors
    /// See [`TicketError`]. The signature is checked first, so a forged ticket is never reported as expired.
    pub fn verify(&self, text: &str, activity: &ActivityId, now: Millis) -> Result<Ticket, TicketError> {
        let ticket = self.verify_signature(text)?;
        if ticket.activity != *activity {
            Err(TicketError::OtherActivity)
        } else if ticket.expires_at <= now {
            Err(TicketError::Expired)
        } else {
            Ok(ticket)
        }
    }

    /// Verifies the signature only: an expired ticket still authorises reading its own order.
    pub fn verify_signature(&self, text: &str) -> Result<Ticket, TicketError> {
        if text.len() > MAX_BYTES {
            return Err(TicketError::Forged);
        }
        let (body, signature) = text.rsplit_once('.').ok_or(TicketError::Forged)?;
        let parts: [&str; 7] = body.split('.').collect::<Vec<_>>().try_into().map_err(|_| TicketError::Forged)?;
        let [version, key, activity, ulid, expires_at, level, user] = parts;
        let signed = self.0.iter().any(|(id, signer)| id == key && signer.verify(body, signature));
        if version != "1" || !signed {
            return Err(TicketError::Forged);
        }
        let parse = || {
            Some(Ticket {
                activity: ActivityId::parse(activity).ok()?,
                ulid: Ulid::from_string(ulid).ok()?,
                expires_at: Millis(expires_at.parse::<i64>().ok()?.checked_mul(1000)?),
                level: level.parse().ok()?,
                user: UserId::parse(&String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(user).ok()?).ok()?).ok()?,
            })
        };
        parse().ok_or(TicketError::Forged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_lives_at_least_until_ten_minutes_after_the_start() {
        const MINUTE: i64 = 60_000;
        let expiry = |now, ends_at| expiry(Millis(now), Millis(100 * MINUTE), Millis(ends_at)).0;
        assert_eq!(expiry(70 * MINUTE, 200 * MINUTE), 110 * MINUTE, "issued as early as possible");
        assert_eq!(expiry(90 * MINUTE, 200 * MINUTE), 120 * MINUTE);
        assert_eq!(expiry(150 * MINUTE + 999, 200 * MINUTE), 180 * MINUTE, "issued after the start, in whole seconds");
        assert_eq!(expiry(70 * MINUTE, 105 * MINUTE), 105 * MINUTE, "never after the end");
    }

    #[test]
    fn the_longest_ids_fit_into_a_ticket() {
        let keys = TicketKeys::new("kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-");
        let longest = Ticket {
            activity: ActivityId::parse(&"a".repeat(40)).expect("id"),
            ulid: Ulid::from_parts(1, 2),
            expires_at: Millis(9_999_999_999_000),
            level: 1_000_000,
            user: UserId::parse(&"伟".repeat(32)).expect("id"),
        };
        let text = keys.issue(&longest).expect("a secret");
        assert!(text.len() <= MAX_BYTES, "{} bytes", text.len());
        assert_eq!(keys.verify_signature(&text), Ok(longest));
    }
}
