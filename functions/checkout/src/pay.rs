//! `POST /api/orders/:order_no/checkout`: takes the delivery address and opens a payment session (E1, E6).

use domain::{
    address::Address,
    api::orders::{CheckedOut, CheckoutBody},
    http::{
        body,
        problem::{Code, FieldError, Problem},
    },
    log_limit::LogLimit,
    order::{Order, OrderStatus},
    time::ceil_seconds,
};
use payments::{
    checkout::{CheckoutError, checkout, checkout_free},
    commands,
    ledger::addresses::SealedAddress,
    provider::{RetryPolicy, order_path},
};
use platform::{
    clock, counts,
    http::{ApiError, Request, Response, after_response},
    ledger::SpinLedger,
    log, provider, random,
    redis::SpinRedis,
    settings,
};
use stores::{counts::Count, ledger::clock::Clock};

use crate::outcome::sync_later;

/// Returns the payment page's URL and the deadline. A repeated request returns the same session. An order that costs nothing
/// is paid, and the URL is that of its page.
pub async fn post(request: &Request, order: &Order) -> Result<Response, ApiError> {
    let body: CheckoutBody = body::parse(&request.body)?;
    let sealed = match &body.address {
        Some(lines) => seal(order, &Address::parse(lines).map_err(Problem::invalid)?).await?,
        None => String::new(),
    };
    let address = SealedAddress { sealed: &sealed, language: &body.language };
    if order.money.amount == 0 {
        return take_free(request, order, address).await;
    }
    if order.status != OrderStatus::PendingPayment {
        let detail = format!("The order is {}: it cannot be paid.", order.status.as_str());
        return Err(Problem::new(Code::StateConflict, detail).into());
    }
    let provider = provider::from_settings(RetryPolicy::BUYER).await?;
    let checked_out = checkout(&SpinLedger::open().await, &provider, order, address, Clock::Ledger).await;
    count_answer(match &checked_out {
        Ok(_) => "ok",
        Err(CheckoutError::Provider(failure)) if failure.is_refusal => "refused",
        Err(CheckoutError::Provider(_)) => "unanswered",
        // The provider was not asked.
        Err(_) => "",
    });
    let (outcome, session_number) = checked_out.map_err(|error| checkout_error(request, order, error))?;
    let order = outcome.order_or_conflict("paid")?.clone();
    let checked_out = CheckedOut { checkout_url: order.checkout_url.as_deref(), pay_by: order.pay_by };
    let response = Response::json(200, &checked_out);
    after_response(async move {
        // If it fails, the page asks for the session again, and the sweeper syncs `pay_by`.
        let _ = commands::copy_session(&SpinRedis, &order, session_number).await;
    });
    Ok(response)
}

/// Counts what the provider answered to a checkout, if it was asked.
fn count_answer(result: &'static str) {
    counts::add(Count::Work { kind: "checkout", result }, usize::from(!result.is_empty()));
}

async fn seal(order: &Order, address: &Address) -> Result<String, ApiError> {
    let sealed = settings::load(settings::ADDRESS_CIPHER).await?.seal(&order.order_no, address, random::bytes());
    sealed.ok_or_else(|| ApiError::Unexpected("an address could not be sealed".to_owned()))
}

async fn take_free(request: &Request, order: &Order, address: SealedAddress<'_>) -> Result<Response, ApiError> {
    let taken = checkout_free(&SpinLedger::open().await, &order.order_no, address, Clock::Ledger).await;
    let taken = taken.map_err(|error| checkout_error(request, order, error))?;
    let order = taken.outcome.order_or_conflict("paid")?;
    let url = order_path(&order.order_no);
    let response = Response::json(200, &CheckedOut { checkout_url: Some(&url), pay_by: order.pay_by });
    sync_later(taken);
    Ok(response)
}

/// Converts a failed checkout into an error, and logs at most one a minute. If the provider's result is unknown, nothing has
/// failed: the order keeps its units, and the next attempt asks the provider again (D8); so it does after a refusal, whose
/// cause an operator may have fixed.
fn checkout_error(request: &Request, order: &Order, error: CheckoutError) -> ApiError {
    thread_local! {
        static FAILURES: LogLimit = const { LogLimit::new(60_000) };
    }
    let failure = match error {
        CheckoutError::Store(error) => return error.into(),
        CheckoutError::AddressMissing => {
            return Problem::invalid(vec![FieldError::new("/address", "is missing: this sale delivers")]).into();
        }
        CheckoutError::Provider(failure) => failure,
    };
    if let Some(number) = FAILURES.with(|limit| limit.count(clock::now())) {
        let fields = [
            ("order_no", order.order_no.to_string().into()),
            ("because", failure.message.into()),
            ("request_id", request.request_id.as_str().into()),
            ("number", number.into()),
        ];
        log::error("the payment provider opened no session", &fields);
    }
    if failure.is_refusal {
        let detail =
            "The payment provider refuses this payment. Ask the shop: your order is held until its time is over.";
        return Problem::new(Code::PaymentRefused, detail).into();
    }
    let seconds = ceil_seconds(failure.retry_after_ms.unwrap_or_default()).clamp(2, 60);
    let detail = "The payment provider did not answer. Your order is held: try again in a moment.";
    Problem::new(Code::NotReady, detail).retry_after(seconds).into()
}
