//! What buyers and payment providers call.

use domain::{
    api::{
        Page,
        admission::{CaptchaChallenge, ChallengeOptions, HostedChallenge, Reservation, Solution, TicketDocument},
        orders::{CallbackBody, CancelBody, CheckedOut, CheckoutBody, PaymentDisputed, SessionEnded},
    },
    http::{
        problem::Code,
        routes::{Admission, BuyerOrders, Checkout, PaymentCallback, Reserve},
    },
    order::Order,
};
use serde_json::{Value, json};

use crate::{components::reference, examples, operation::Operation, schemas::Schemas};

pub fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    let mut operations = buying(schemas);
    operations.append(&mut orders(schemas));
    operations.append(&mut callbacks(schemas));
    operations
}

fn buying(schemas: &mut Schemas) -> Vec<Operation> {
    const REFUSED_VISITOR: [Code; 6] =
        [Code::NotOpen, Code::NotEligible, Code::Banned, Code::NotFound, Code::Ended, Code::Overloaded];
    let challenge = json!({
        "oneOf": [
            reference("schemas", "AltchaChallenge"),
            schemas.response::<CaptchaChallenge>(),
            schemas.response::<HostedChallenge<'_>>(),
        ],
    });
    vec![
        Operation::new(Admission::Challenge, "askChallenge", "A human check to solve")
            .tag("buying")
            .describe("`not_found` if the activity asks for no check.")
            .secured_by("jwt")
            .limited()
            .body(false, schemas.request::<ChallengeOptions>())
            .returns(
                200,
                "The challenge, for this user and activity. It lasts for 5 minutes and one ticket.",
                challenge,
            )
            .refuses(&REFUSED_VISITOR),
        Operation::new(Admission::Ticket, "issueTicket", "A ticket, from 30 minutes before the start")
            .tag("buying")
            .secured_by("jwt")
            .limited()
            .body(false, schemas.request::<Solution>())
            .returns(201, "The ticket.", schemas.response::<TicketDocument>())
            .example_of(201, examples::ticket())
            .refuses(&REFUSED_VISITOR)
            .refuses(&[Code::HumanCheckRequired, Code::HumanCheckFailed, Code::TooManyStrikes]),
        Operation::new(Reserve::Order, "reserve", "Reserve units")
            .tag("buying")
            .describe(
                "The ticket in the body authenticates the user, and is the idempotency key: with the same SKU and \
                 quantity the first response is repeated, with others it is `ticket_conflict`. A refused request does \
                 not use the ticket. While too few units are left, a ticket that has made an order may hear `sold_out` or \
                 `insufficient_stock`, too: after a request without an answer, read the order that its `order_no` names.",
            )
            .limited()
            .body(true, schemas.request::<Reservation>())
            .example(examples::reservation())
            .returns_with(
                202,
                "The order as it was when it was reserved. It can be polled from now on.",
                &[("location", "Location"), ("retry-after", "RetryAfter")],
                Some(("application/json", schemas.response::<Order>())),
            )
            .example_of(202, examples::order("queued"))
            .refuses(&[Code::TicketInvalid, Code::NotOpen, Code::StartKeyInvalid, Code::Banned, Code::NotFound])
            .refuses(&[Code::LimitReached, Code::SoldOut, Code::InsufficientStock, Code::PriceChanged])
            .refuses(&[Code::Ended, Code::TicketConflict])
            .refuses(&[Code::Paused, Code::Overloaded]),
    ]
}

fn orders(schemas: &mut Schemas) -> Vec<Operation> {
    let polled = [("etag", "ETag"), ("retry-after", "PollAfter")];
    vec![
        Operation::new(
            BuyerOrders::List,
            "listOrders",
            "The caller's orders, newest first, also queued and failed ones",
        )
        .tag("orders")
        .secured_by("jwt")
        .refuses(&[Code::RateLimited])
        .paged(100, 20)
        .returns_with(
            200,
            "A page of orders.",
            &[("x-unread-activities", "UnreadActivities")],
            Some(("application/json", schemas.response::<Page<Order>>())),
        ),
        Operation::new(BuyerOrders::Order, "getOrder", "An order, for its buyer")
            .tag("orders")
            .describe(
                "With the ticket that made the order, which costs least, or with a sign-in token. A `404` means that there \
                 is no such order yet: a reservation is decided within ten seconds or never.",
            )
            .secured_by("jwt")
            .secured_by("ticket")
            .refuses(&[Code::RateLimited])
            .query(
                "last",
                "Whether the caller will not look again. Ten seconds after the last reservation without an answer, a \
                 `404` is then final: it is the ledger's, too.",
                json!({"type": "boolean", "default": false}),
            )
            .parameter(if_none_match())
            .returns_with(200, "The order.", &polled, Some(("application/json", schemas.response::<Order>())))
            .example_of(200, examples::order("pending_payment"))
            .returns_with(304, "The order is as the caller's copy.", &polled, None)
            .refuses(&[Code::TicketInvalid, Code::NotFound]),
        Operation::new(Checkout::Pay, "checkout", "Give an address and start paying")
            .tag("orders")
            .secured_by("jwt")
            .refuses(&[Code::RateLimited])
            .body(true, schemas.request::<CheckoutBody>())
            .example(examples::checkout())
            .returns(
                200,
                "The payment page and the deadline. A repeated request returns the same session.",
                schemas.response::<CheckedOut<'_>>(),
            )
            .example_of(200, json!({ "checkout_url": "https://pay.example/s/7f3a", "pay_by": examples::PAY_BY }))
            .refuses(&[Code::NotFound, Code::StateConflict, Code::PaymentRefused]),
        Operation::new(Checkout::Cancel, "cancel", "Cancel an order that waits for payment, or leave the line")
            .tag("orders")
            .describe(
                "The units go to the next in the line, or are on sale again. A unit may be offered while the buyer decides \
                 to leave: `{\"status\": \"waiting\"}` cancels no order.",
            )
            .secured_by("jwt")
            .refuses(&[Code::RateLimited])
            .body(false, schemas.request::<CancelBody>())
            .returns(200, "The cancelled order, or the entry that has ended.", schemas.response::<Order>())
            .refuses(&[Code::NotFound, Code::StateConflict]),
        Operation::new(Checkout::Refund, "requestRefund", "Ask for a refund of a paid order")
            .tag("orders")
            .secured_by("jwt")
            .refuses(&[Code::RateLimited])
            .returns(202, "The order, refunding until the provider confirms.", schemas.response::<Order>())
            .refuses(&[Code::NotFound, Code::StateConflict, Code::RefundClosed]),
    ]
}

fn callbacks(schemas: &mut Schemas) -> Vec<Operation> {
    let stripe_signature = json!({
        "name": "stripe-signature", "in": "header", "required": true,
        "description": "`t=<seconds since 1970>,v1=<hexadecimal HMAC-SHA256>`, the time at most 300 seconds off.",
        "schema": { "type": "string", "examples": ["t=1795266138,v1=00"] },
    });
    let callback = json!({ "oneOf": [schemas.request::<CallbackBody>(), schemas.request::<SessionEnded>(), schemas.request::<PaymentDisputed>(), reference("schemas", "OtherCallback")] });
    vec![
        Operation::new(PaymentCallback::Standard, "takePaymentEvent", "A provider's callback, as Standard Webhooks")
            .tag("providers")
            .describe("`not_found` if `payment_provider` is another one, except for orders that this one opened.")
            .parameter(reference("parameters", "WebhookId"))
            .parameter(reference("parameters", "WebhookTimestamp"))
            .parameter(reference("parameters", "WebhookSignature"))
            .body(true, callback)
            .returns_with(
                204,
                "Accepted. A repeated message and one of another app's order change nothing; one of an order that the \
                 ledger lost, or of a wrong amount, is held for an operator.",
                &[],
                None,
            )
            .refuses(&[Code::SignatureInvalid, Code::NotFound]),
        Operation::new(PaymentCallback::Stripe, "takeStripeEvent", "Stripe's callback")
            .tag("providers")
            .parameter(stripe_signature)
            .body(true, reference("schemas", "StripeEvent"))
            .describe("`not_found` if the provider is not configured, except for orders that it opened.")
            .returns_with(204, "Accepted.", &[], None)
            .refuses(&[Code::SignatureInvalid, Code::NotFound]),
    ]
}

/// The header that names the caller's copy.
pub fn if_none_match() -> Value {
    json!({
        "name": "if-none-match", "in": "header", "description": "The `ETag` of the caller's copy.",
        "schema": { "type": "string", "examples": ["\"00aa11bb22cc33dd\""] },
    })
}
