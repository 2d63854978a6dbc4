//! One sale to honest buyers and a farm.

use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use dev::test_stack::TestStack;
use domain::ids::{ActivityId, UserId};
use domain::order_number::OrderNumberKeys;
use domain::ticket::{MAX_LIFETIME_MS, Ticket, TicketKeys};
use domain::time::Millis;
use futures::{StreamExt, TryStreamExt, stream};
use http::header::HeaderValue;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::sleep;

use super::Options;
use super::siteverify::BOUGHT;
use super::solver;
use crate::app::is_retryable;
use crate::http::{Call, Client, Response, bearer};
use crate::target::JwtSettings;
use crate::wire::Gate;

/// Requests at a time before the start.
const CONCURRENCY: usize = 16;

/// Time that the sale is open for tickets before its start, beside the processor time of the farm.
const BEFORE_START: Duration = Duration::from_secs(15);

/// Tries of an account at pictures: the tenth failure within half an hour is a ban.
const TRIES: usize = 9;

/// How often the farm asks for the gate.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A human check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    None,
    Puzzle,
    Work,
    Hosted,
}

impl Check {
    /// All checks, with their names in the table.
    pub const ALL: [(&str, Self); 4] = [
        ("`none`", Self::None),
        ("`captcha`, slider", Self::Puzzle),
        ("`pow`", Self::Work),
        ("`hosted`", Self::Hosted),
    ];

    /// The value of `human_check`.
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Puzzle => "captcha",
            Self::Work => "pow",
            Self::Hosted => "hosted",
        }
    }
}

/// What a sale ended with.
pub struct SaleResult {
    /// Tickets of the farm.
    pub tickets: usize,
    /// What they cost, in words.
    pub spent: String,
    pub farm_units: usize,
    pub buyer_units: usize,
}

/// An account with its address.
struct Account {
    user: String,
    authorization: HeaderValue,
    address: HeaderValue,
}

struct Sale<'a> {
    options: &'a Options,
    client: Client,
    activity: String,
    check: Check,
}

/// Runs a sale. `per_address` limits the requests of each kind of one address in half an hour.
pub async fn run(app: &TestStack, options: &Options, check: Check, per_address: Option<u32>) -> Result<SaleResult> {
    let variables = &app.app.settings().variables;
    let activity = format!("farm-{:08x}", fastrand::u32(..));
    let client = Client::new(app.app.url(), 256, Duration::from_secs(10))?;
    let sale = Sale { options, client, activity, check };
    let jwt = JwtSettings {
        key: variables.get("jwt_key").to_owned(),
        issuer: variables.get("jwt_issuer").to_owned(),
        audience: variables.get("jwt_audience").to_owned(),
    };
    let account = |name: &str, index: usize, address: String| -> Result<Account> {
        let user = format!("{}-{name}-{index}", sale.activity);
        Ok(Account { authorization: bearer(&jwt.sign(&user)?)?, user, address: HeaderValue::from_str(&address)? })
    };
    let farm: Vec<Account> = (0..options.accounts)
        .map(|index| account("farm", index, address(45, index % options.addresses)))
        .collect::<Result<_>>()?;
    let buyers: Vec<Account> =
        (0..options.buyers).map(|index| account("buyer", index, address(20, index))).collect::<Result<_>>()?;

    sale.publish(variables.get("admin_token"), per_address).await?;
    let buyer_tickets = sale.buyer_tickets(&buyers, variables.get("ticket_secret")).await?;
    let (farm_tickets, spent) = sale.farm_tickets(&farm).await?;
    let start_key = sale.wait_until_open().await?;
    let (farm_orders, buyer_orders) = tokio::join!(
        stream::iter(farm.iter().zip(&farm_tickets).filter_map(|(account, ticket)| Some((account, ticket.as_ref()?))))
            .map(|(account, ticket)| sale.reserve(account, ticket, &start_key, Duration::ZERO))
            .buffer_unordered(64)
            .try_collect::<Vec<_>>(),
        stream::iter(buyers.iter().zip(&buyer_tickets))
            .map(|(buyer, ticket)| {
                let reaction = fastrand::u64(options.reaction_ms / 10..=options.reaction_ms);
                sale.reserve(buyer, ticket, &start_key, Duration::from_millis(reaction))
            })
            .buffer_unordered(options.buyers)
            .try_collect::<Vec<_>>(),
    );
    let count = |orders: Vec<bool>| orders.into_iter().filter(|accepted| *accepted).count();
    let result = SaleResult {
        tickets: farm_tickets.iter().flatten().count(),
        spent,
        farm_units: count(farm_orders?),
        buyer_units: count(buyer_orders?),
    };
    sale.admin(variables.get("admin_token"), Call::post(sale.admin_path("/close"), &json!({}))).await?;
    Ok(result)
}

/// A public address below `first`.
fn address(first: u8, index: usize) -> String {
    format!("{first}.7.{}.{}", index / 250, index % 250 + 1)
}

impl Sale<'_> {
    fn admin_path(&self, suffix: &str) -> String {
        format!("/api/admin/activities/{}{suffix}", self.activity)
    }

    async fn admin(&self, token: &str, call: Call) -> Result<Response> {
        self.client.send(&call.with_authorization(&bearer(token)?)).await?.error_for_status("an operator's call")
    }

    async fn publish(&self, token: &str, per_address: Option<u32>) -> Result<()> {
        let work = if self.check == Check::Work { self.options.cpu_seconds } else { 0 };
        let starts_at = OffsetDateTime::now_utc() + BEFORE_START + Duration::from_secs(work);
        let spec = json!({
            "title": "Farm", "human_check": self.check.as_str(),
            "starts_at": starts_at.replace_millisecond(0)?.format(&Rfc3339)?,
            "ends_at": (starts_at + Duration::from_secs(3_600)).replace_millisecond(0)?.format(&Rfc3339)?,
            "limits": {"ip": per_address.map(|count| json!({"count": count, "seconds": 1_800}))},
            "skus": [{"sku": "a", "name": "A", "price": 100, "currency": "EUR", "total": self.options.stock}],
        });
        self.admin(token, Call::put(self.admin_path(""), &spec)).await?;
        self.admin(token, Call::post(self.admin_path("/publish"), &json!({}))).await?;
        Ok(())
    }

    async fn post(&self, account: &Account, route: &str, body: &Value) -> Result<Response> {
        let call = Call::post(format!("/api/activities/{}/{route}", self.activity), body);
        let call = call.with_authorization(&account.authorization).with_client_address(&account.address);
        Ok(self.client.send(&call).await?)
    }

    /// The tickets of honest buyers. People solve every check; the app counts them as visitors, which raises the price of
    /// work.
    async fn buyer_tickets(&self, buyers: &[Account], secret: &str) -> Result<Vec<String>> {
        let route = if self.check == Check::None { "ticket" } else { "challenge" };
        let visit =
            |buyer| async move { self.post(buyer, route, &json!({})).await?.error_for_status("a buyer's visit") };
        stream::iter(buyers).map(visit).buffered(CONCURRENCY).try_collect::<Vec<_>>().await?;
        let (tickets, numbers) = (TicketKeys::new(secret), OrderNumberKeys::new(secret));
        let activity = ActivityId::parse(&self.activity)?;
        let now = Millis((OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000) as i64);
        let issue = |buyer: &Account| {
            let ticket = Ticket {
                activity: activity.clone(),
                ulid: numbers.issue(&activity, now, fastrand::u128(..)).context("no secret")?,
                expires_at: now.plus(MAX_LIFETIME_MS / 2),
                level: 0,
                user: UserId::parse(&buyer.user)?,
            };
            tickets.issue(&ticket).context("no secret")
        };
        buyers.iter().map(issue).collect()
    }

    /// The farm's tickets, one for each account where the budget allows it, and what was spent.
    async fn farm_tickets(&self, farm: &[Account]) -> Result<(Vec<Option<String>>, String)> {
        let budget = Mutex::new(Budget::default());
        let concurrency = if self.check == Check::Work { 1 } else { CONCURRENCY };
        let tickets = stream::iter(farm).map(|account| self.farm_ticket(account, &budget)).buffered(concurrency);
        let tickets = tickets.try_collect().await?;
        let Budget { cpu, tries, pictures, read, bought } = budget.into_inner().unwrap_or_default();
        let spent = match self.check {
            Check::None => "nothing".to_owned(),
            Check::Puzzle => format!("{pictures} pictures, {read} of them read"),
            Check::Work => format!("{:.0} s of one core for {tries} tries", cpu.as_secs_f64()),
            Check::Hosted => format!("{bought} checks"),
        };
        Ok((tickets, spent))
    }

    async fn farm_ticket(&self, account: &Account, budget: &Mutex<Budget>) -> Result<Option<String>> {
        let change = |change: &dyn Fn(&mut Budget)| {
            let mut budget = budget.lock().map_err(|_| anyhow::anyhow!("a robot's task broke"))?;
            change(&mut budget);
            Ok::<_, anyhow::Error>(*budget)
        };
        let ticket = |response: Response| match response.status {
            201 => response.text("ticket").map(Some),
            403 | 429 => Ok(None),
            _ => bail!("a ticket was answered {}", response.label()),
        };
        match self.check {
            Check::None => ticket(self.post(account, "ticket", &json!({})).await?),
            Check::Hosted => {
                if change(&|budget| budget.bought += 1)?.bought > self.options.bought {
                    change(&|budget| budget.bought -= 1)?;
                    return Ok(None);
                }
                let token = format!("{BOUGHT}{}", account.user);
                let response = self.post(account, "ticket", &json!({ "hosted": token })).await?;
                // A request that a limit refused was not verified: the token is good for another account.
                if response.status == 429 {
                    change(&|budget| budget.bought -= 1)?;
                }
                ticket(response)
            }
            Check::Work => {
                if change(&|_| {})?.cpu >= Duration::from_secs(self.options.cpu_seconds) {
                    return Ok(None);
                }
                let response = self.post(account, "challenge", &json!({})).await?;
                if response.status == 429 {
                    return Ok(None);
                }
                let challenge = response.error_for_status("a challenge")?.parse()?;
                let work = tokio::task::spawn_blocking(|| solver::work(challenge)).await??;
                change(&|budget| {
                    budget.cpu += work.time;
                    budget.tries += i64::from(work.tries);
                })?;
                ticket(self.post(account, "ticket", &json!({ "altcha": work.payload })).await?)
            }
            Check::Puzzle => {
                for _ in 0..TRIES {
                    let response = self.post(account, "challenge", &json!({"captcha": "slider"})).await?;
                    if response.status == 429 {
                        return Ok(None);
                    }
                    let captcha = response.error_for_status("a challenge")?.parse::<Value>()?["captcha"].take();
                    let is_read = fastrand::f64() < self.options.accuracy;
                    let x = if is_read { solver::find_gap(&captcha)? } else { fastrand::i64(76..=260) };
                    // As slow as a hand, because the app compares the track with its clock.
                    let track: Vec<_> = (0..=10).map(|step| (step * 40 + step % 3, x * step / 10)).collect();
                    sleep(Duration::from_millis(450)).await;
                    let answer = json!({"captcha": {"id": captcha["id"], "answer": x, "track": track}});
                    let response = self.post(account, "ticket", &answer).await?;
                    let passed = response.status == 201;
                    change(&|budget| {
                        budget.pictures += 1;
                        budget.read += usize::from(passed);
                    })?;
                    if passed || response.status == 429 {
                        return ticket(response);
                    }
                }
                Ok(None)
            }
        }
    }

    /// Polls the gate until it shows the start key.
    async fn wait_until_open(&self) -> Result<String> {
        let call = Call::get(format!("/api/activities/{}/gate.json", self.activity));
        loop {
            let gate: Gate = self.client.send(&call).await?.parse()?;
            match gate.start_key {
                Some(start_key) => return Ok(start_key),
                None if gate.phase == "scheduled" => sleep(POLL_INTERVAL).await,
                None => bail!("the gate is {}", gate.phase),
            }
        }
    }

    /// Reserves one unit after `delay`. Returns whether it was accepted.
    async fn reserve(&self, account: &Account, ticket: &str, start_key: &str, delay: Duration) -> Result<bool> {
        sleep(delay).await;
        let body = json!({"sku": "a", "quantity": 1, "ticket": ticket, "start_key": start_key});
        for _ in 0..10 {
            let response = self.post(account, "orders", &body).await?;
            match response.status {
                202 => return Ok(true),
                // The limit of an address: its next request is allowed minutes later.
                429 => return Ok(false),
                status if is_retryable(status) => sleep(response.retry_after.unwrap_or(POLL_INTERVAL)).await,
                403 if response.code().as_deref() == Some("not_open") => sleep(POLL_INTERVAL).await,
                _ if response.code().as_deref() == Some("sold_out") => return Ok(false),
                _ => bail!("a reservation was answered {}", response.label()),
            }
        }
        Ok(false)
    }
}

/// What the farm has spent.
#[derive(Debug, Clone, Copy, Default)]
struct Budget {
    cpu: Duration,
    tries: i64,
    pictures: usize,
    read: usize,
    bought: usize,
}
