//! Creates, changes, publishes, pauses, resumes, closes and restocks activities.

use domain::{
    activity::{ActivitySpec, ActivityState, Announcement, Checkout, HumanCheck},
    api::{Page, operators::Restock},
    http::{
        body,
        problem::{Code, FieldError, Problem},
    },
    ids::{ActivityId, SkuId},
    stripe,
    webhook::PaymentProvider,
};
use operations::{
    commands::{
        activities::{DeleteOutcome, OperationOutcome, OperatorContext, delete_draft},
        documents::{ListedSale, RebuildingActivity},
    },
    ledger::{operator_changes::RecordedActivity, sales},
    upkeep::budget::Budget,
};
use orders::ledger::events;
use platform::{
    clock,
    http::{ApiError, Request, Response, not_found},
    ledger::SpinLedger,
    paging, random, readable_activities,
    redis::SpinRedis,
    settings,
};
use sale::ledger::activities::{self, Activity};

use crate::{call::Outcome, readiness};

/// Maximum and default number of activities in a page: the whole list.
const MAX_PAGE: i64 = 200;

/// Handles `GET …/activities?before=&limit=`: up to 200 activities, drafts included, the latest start first: the 150 that
/// end next, and the 50 that ended last, each with what it has sold; `304` to a page that has them.
pub async fn list(request: &Request) -> Result<Outcome, ApiError> {
    let (before, limit) = (paging::before(request), paging::limit(request, MAX_PAGE)?);
    let ledger = SpinLedger::open().await;
    let found = readable_activities::of(activities::list(&ledger, clock::now()).await?);
    let Page { items, next } = Page::of_all(found, before.as_deref(), limit, |activity| activity.id.to_string())?;
    let mut figures = sales::load(&ledger, &items.iter().map(|activity| &activity.id).collect::<Vec<_>>()).await?;
    let with_figures = |activity: Activity| {
        let figures = figures.remove(&activity.id).unwrap_or_default();
        ListedSale { activity, figures }
    };
    let page = Page { items: items.into_iter().map(with_figures).collect(), next };
    let response = Response::json(200, &page).unless_unchanged(request).header("cache-control", "no-store");
    Ok(read(response, page.items.iter().map(|listed| &listed.activity)))
}

/// Handles `GET …/activities/:activity`; `304` to a page that has this version, which `If-Match` of a change may name.
pub async fn get(request: &Request, id: &ActivityId) -> Result<Outcome, ApiError> {
    let found = activities::load(&SpinLedger::open().await, id).await?;
    let found = found.ok_or_else(|| not_found("There is no such sale."))?;
    let etag = format!("\"{}\"", found.version);
    let response = if request.matches_etag(&etag) { Response::empty(304) } else { Response::json(200, &found) };
    Ok(read(response.header("etag", etag), [&found]))
}

/// A response with activities tells of buyers if it lists users who may take part.
fn read<'a>(response: Response, activities: impl IntoIterator<Item = &'a Activity>) -> Outcome {
    let lists_users = activities.into_iter().any(|activity| !activity.spec.eligibility.allow.is_empty());
    if lists_users && response.status == 200 { Outcome::ReadBuyers(response) } else { Outcome::Read(response) }
}

/// Handles `PUT …/activities/:activity`: creates or replaces a draft, or changes a published activity. A change that
/// would break existing orders, such as a lower `per_user` or a removed SKU, is a `state_conflict`. Changing a price or a
/// currency on sale, or having a longer time for refunds, is `forbidden` unless `may_change_money`.
pub async fn put(request: &Request, id: &str, may_change_money: bool) -> Result<Outcome, ApiError> {
    let id = ActivityId::parse(id)
        .map_err(|error| Problem::new(Code::InvalidRequest, format!("The path names no sale: {error}.")))?;
    let spec = body::parse_strict(&request.body, ActivitySpec::validate)?;
    let mut errors = Vec::new();
    if spec.human_check == HumanCheck::Hosted && !*settings::load(settings::HAS_HOSTED_CHECKS).await? {
        errors.push(FieldError::new("/human_check", "needs the variables siteverify_…, which are empty"));
    }
    errors.extend(what_the_provider_refuses(&spec).await);
    if !errors.is_empty() {
        return Err(Problem::invalid(errors).into());
    }
    let secret = settings::load(settings::TICKET_SECRET).await?;
    let ledger = SpinLedger::open().await;
    let context = OperatorContext { may_change_money, ..operator_context(&ledger, &secret).await? };
    into_outcome(context.put(&id, spec, expected_version(request)?).await?, &secret)
}

async fn what_the_provider_refuses(spec: &ActivitySpec) -> Vec<FieldError> {
    let provider = settings::find(settings::PAYMENT_PROVIDER).await;
    let is_stripe = provider.is_ok_and(|provider| *provider == PaymentProvider::Stripe);
    let mut errors = Vec::new();
    if spec.checkout == Checkout::Provider {
        let delivers = settings::find(settings::SHIPPING_COUNTRIES).await.is_ok_and(|countries| !countries.is_empty());
        if !(is_stripe && delivers) {
            let detail = "provider needs Stripe as payment_provider, and stripe_shipping_countries";
            errors.push(FieldError::new("/checkout", detail));
        }
    }
    for (index, sku) in spec.skus.iter().enumerate().filter(|_| is_stripe) {
        let (step, least) = (stripe::step(&sku.currency), stripe::minimum(&sku.currency));
        let detail = if sku.price % step != 0 {
            format!("must be a multiple of {step} minor units, in which Stripe charges {}", sku.currency)
        } else if (1..least).contains(&sku.price) {
            // An order of one unit costs this much.
            format!("must be 0, or {least} minor units or more: Stripe charges no less of {}", sku.currency)
        } else {
            continue;
        };
        errors.push(FieldError::new(format!("/skus/{index}/price"), detail));
    }
    errors
}

/// Returns the version in `If-Match`; `None` if the header is missing or `*`.
fn expected_version(request: &Request) -> Result<Option<i64>, Problem> {
    let Some(tag) = request.header("if-match").filter(|tag| tag != "*") else { return Ok(None) };
    let version = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')?.parse().ok());
    let detail = "If-Match holds the sale's version as you read it, in quotes, such as \"7\".";
    version.map(Some).ok_or_else(|| Problem::new(Code::InvalidRequest, detail))
}

/// Handles `POST …/publish`, `/pause` and `/close`.
pub async fn set_state(id: &ActivityId, state: ActivityState) -> Result<Outcome, ApiError> {
    let secret = settings::load(settings::TICKET_SECRET).await?;
    let ledger = SpinLedger::open_for_batch().await;
    if state == ActivityState::Published {
        prepare_opening(&ledger).await?;
        // The provider may be another one than when the sale was saved.
        if let Some(found) = activities::load(&ledger, id).await? {
            let errors = what_the_provider_refuses(&found.spec).await;
            if !errors.is_empty() {
                return Err(Problem::invalid(errors).into());
            }
        }
    }
    into_outcome(operator_context(&ledger, &secret).await?.set_state(id, state).await?, &secret)
}

/// Handles `POST …/resume`.
pub async fn resume(id: &ActivityId) -> Result<Outcome, ApiError> {
    let secret = settings::load(settings::TICKET_SECRET).await?;
    let ledger = SpinLedger::open_for_batch().await;
    prepare_opening(&ledger).await?;
    into_outcome(operator_context(&ledger, &secret).await?.resume(id).await?, &secret)
}

/// Refuses while a secret is missing or weak, so that no activity opens in which buyers cannot pay; and turns the outbox
/// on if the shop has an `events_url`, else off (E7).
async fn prepare_opening(ledger: &SpinLedger) -> Result<(), ApiError> {
    if let Some(fault) = readiness::variables_fault().await? {
        return Err(Problem::new(Code::NotReady, format!("Not ready for a sale: {fault}.")).retry_after(2).into());
    }
    Ok(events::set_enabled(ledger, !settings::load(settings::EVENTS_URL).await?.is_empty()).await?)
}

/// Handles `DELETE …/activities/:activity`: deletes a draft, or a rehearsal that is over.
pub async fn delete(id: &ActivityId) -> Result<Outcome, ApiError> {
    let ledger = SpinLedger::open_for_batch().await;
    let outcome = match activities::load(&ledger, id).await? {
        Some(found) if found.spec.rehearsal && found.state != ActivityState::Draft => {
            let secret = settings::load(settings::TICKET_SECRET).await?;
            operator_context(&ledger, &secret).await?.delete_rehearsal(&found).await?
        }
        _ => delete_draft(&ledger, id).await?,
    };
    match outcome {
        DeleteOutcome::Deleted => Ok(Outcome::deleted()),
        DeleteOutcome::NotFound => Err(not_found("There is no such sale.")),
        DeleteOutcome::Conflict(detail) => Err(Problem::new(Code::StateConflict, detail).into()),
    }
}

/// Handles `PUT …/announcement`; an empty object removes it.
pub async fn announce(request: &Request, id: &ActivityId) -> Result<Outcome, ApiError> {
    let announcement = body::parse_strict(&request.body, Announcement::validate)?;
    let secret = settings::load(settings::TICKET_SECRET).await?;
    let ledger = SpinLedger::open().await;
    into_outcome(operator_context(&ledger, &secret).await?.announce(id, announcement).await?, &secret)
}

/// Handles `POST …/rotate-start-key`.
pub async fn rotate_start_key(id: &ActivityId) -> Result<Outcome, ApiError> {
    let secret = settings::load(settings::TICKET_SECRET).await?;
    let ledger = SpinLedger::open().await;
    into_outcome(operator_context(&ledger, &secret).await?.rotate_start_key(id).await?, &secret)
}

/// Handles `POST …/skus/:sku/restock`. With `from`, the total that the operator saw, a repeated request adds the units
/// once.
pub async fn restock(request: &Request, id: &ActivityId, sku: &SkuId) -> Result<Outcome, ApiError> {
    let Restock { by, from } = body::parse_strict(&request.body, Restock::validate)?;
    let secret = settings::load(settings::TICKET_SECRET).await?;
    let ledger = SpinLedger::open().await;
    let outcome = operator_context(&ledger, &secret).await?.restock(id, sku, by, from).await?;
    let OperationOutcome::Done(activity) = outcome else { return into_outcome(outcome, &secret) };
    let sku = activity.spec.skus.iter().find(|known| known.sku == *sku);
    Ok(Outcome::recorded(&RecordedActivity::new(&activity, &secret), Response::json(200, &sku)))
}

async fn operator_context<'a>(
    sql: &'a SpinLedger,
    ticket_secret: &'a str,
) -> Result<OperatorContext<'a, SpinRedis, SpinLedger>, ApiError> {
    let (redis, now, rebuild_budget) = (&SpinRedis, SpinRedis.now().await?, Budget::REQUEST);
    let nonce = format!("{:032x}", random::bits());
    Ok(OperatorContext { redis, sql, ticket_secret, now, nonce, rebuild_budget, may_change_money: false })
}

fn into_outcome(outcome: OperationOutcome, secret: &str) -> Result<Outcome, ApiError> {
    match outcome {
        OperationOutcome::Done(activity) => {
            Ok(Outcome::recorded(&RecordedActivity::new(&activity, secret), Response::json(200, &*activity)))
        }
        OperationOutcome::Unchanged(activity) => Ok(Outcome::Unchanged(Response::json(200, &*activity))),
        OperationOutcome::Rebuilding(activity, progress) => {
            let document = RebuildingActivity { activity: &activity, rebuild: progress.into() };
            Ok(Outcome::recorded(&RecordedActivity::new(&activity, secret), Response::json(202, &document)))
        }
        OperationOutcome::NotFound => Err(not_found("There is no such sale or SKU.")),
        OperationOutcome::MayNotChangeMoney => {
            let detail = "Prices, currencies and a longer time for refunds of a published sale are set by operators with \
                the roles operate and money.";
            Err(Problem::new(Code::Forbidden, detail).into())
        }
        OperationOutcome::Conflict(detail) => Err(Problem::new(Code::StateConflict, detail).into()),
    }
}
