//! One sweep: runs every step under a lease, in bounded time (E3, G3).
//!
//! A lease in the ledger keeps sweeps from overlapping. Each step works in batches until it has nothing left to do or
//! the time budget is used up.

use std::time::{Duration, Instant};

use domain::{settings::Retention, time::Millis};
use orders::{
    event_delivery::{self, TIMEOUT_MS, WebhookTarget},
    ledger::{
        events::{self, set_enabled},
        order_changes,
    },
};
use payments::{
    callbacks,
    ledger::{addresses, callback_rows, disputes},
    provider::Provider,
    refunds, sessions,
};
use sale::ledger::activities::{self, IN_REDIS_MS};
use stores::{
    http_client::HttpClient,
    lease as redis_lease,
    ledger::leases::{self, Lease},
    ports::{KeyValue, Redis, Sql, StoreError},
};

use crate::{
    commands::bans,
    ledger::{history, sale_states},
    upkeep::{
        budget::Budget,
        erasure, gates, lines,
        passes::{self, LEASE, LEASE_MS, ORDER_BATCH_SIZE},
        rebuild::{RebuildOutcome, continue_interrupted},
        report::{Notice, Report},
    },
};

/// How long one sweep works; a batch that has begun is finished.
const TIME_BUDGET: Duration = Duration::from_secs(10);

/// How long a sweep that wrote orders delivers events.
const BESIDE_ORDERS: Duration = Duration::from_secs(1);

/// A sweep that waited longer than this for its lease renews it.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// Maximum number of payment sessions closed at the provider in one round, concurrently.
const MAX_SESSIONS: i64 = 16;

const MAX_REFUNDS: i64 = 20;
const MAX_CALLBACKS: i64 = 200;
const ERASE_BATCH: i64 = 1_000;
const ERASE_LEASE_KEY: &str = "stampede:erase";

/// How often old data is erased, in milliseconds: the lease is not released but expires.
const ERASE_INTERVAL_MS: i64 = 10 * 60_000;

/// Until a sweep goes on if rows are left, in milliseconds.
const ERASE_AGAIN_MS: i64 = 30_000;

/// How long a sweep erases old rows, and as long again old activities; a batch that has begun is finished.
const ERASE_TIME: Duration = Duration::from_secs(2);

/// Maximum number of batches of each kind erased in one sweep, and of batches of old orders.
const MAX_ERASE_BATCHES: usize = 10;

/// How far the clocks of the ledger and of Redis may be apart for data to be erased, in milliseconds.
pub(crate) const MAX_CLOCK_DIFFERENCE_MS: i64 = 5 * 60_000;

const EVENTS_LEASE_KEY: &str = "stampede:events";

/// How long the lease for one round of events lasts, in milliseconds: the endpoint's timeout, and 10 s for the ledger.
const EVENTS_LEASE_MS: i64 = TIMEOUT_MS + 10_000;

const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// Days for which callbacks are kept: longer than any provider retries one (E2).
const CALLBACK_DAYS: i64 = 30;

/// What a sweep works with.
pub struct Sweeper<'a, R, S, K, P, W> {
    /// Redis.
    pub redis: &'a R,
    /// Key-value, which has copies of activities.
    pub key_value: &'a K,
    /// The ledger.
    pub sql: &'a S,
    /// The payment provider. Without one, only callbacks are finished; orders with an open payment session are released
    /// later.
    pub provider: Option<&'a P>,
    /// Sends events.
    pub http: &'a W,
    /// The shop's endpoint for events. Without one, no events are recorded, so that they do not accumulate.
    pub events: Option<WebhookTarget<'a>>,
    /// The secret of start keys.
    pub ticket_secret: &'a str,
    /// How long data is kept.
    pub retention: Retention,
    /// A name that no other sweep has.
    pub owner: &'a str,
    /// The app's clock: events are due and signed by it.
    pub clock: &'a dyn Fn() -> Millis,
    /// Milliseconds by which Redis's clock is ahead of the ledger's, which erasing goes by; `None` if Redis did not say:
    /// nothing is erased.
    pub redis_ahead_ms: Option<i64>,
    /// A clock that is never set back: the time since any moment.
    pub stopwatch: &'a dyn Fn() -> Duration,
    /// Logs a notice. It is called at the end of the step that the notice comes from: an instance that is killed in a
    /// later step has logged it.
    pub log: &'a dyn Fn(&Notice),
}

/// How a sweep ended.
#[derive(Debug)]
pub enum SweepOutcome {
    /// Another sweeper is at work.
    Busy,
    /// The sweep ran, to its end or to the error: the next one continues.
    Swept(Box<Report>, Option<StoreError>),
}

impl<R: Redis, S: Sql, K: KeyValue, P: Provider, W: HttpClient> Sweeper<'_, R, S, K, P, W> {
    /// Runs one sweep. `now` is the time by the ledger's clock: call this as soon as the ledger has answered it.
    ///
    /// # Errors
    /// [`StoreError`] of the ledger, on acquiring the lease.
    pub async fn run(&self, now: Millis) -> Result<SweepOutcome, StoreError> {
        let called = (self.stopwatch)();
        let Some(lease) = leases::acquire(self.sql, LEASE, self.owner, now, LEASE_MS).await? else {
            return Ok(SweepOutcome::Busy);
        };
        // A ledger that is slow to give the lease takes nothing from the time budget, but time of the lease.
        let start = (self.stopwatch)();
        let waited = start - called;
        let now = now.plus(waited.as_millis() as i64);
        if waited > LONG_WAIT && !leases::renew(self.sql, &lease, now.plus(LEASE_MS)).await? {
            return Ok(SweepOutcome::Busy);
        }
        let elapsed = || (self.stopwatch)() - start;
        let mut run = Run { sweeper: self, lease, now, elapsed: &elapsed, report: Report::default() };
        let steps = run.run_steps().await;
        run.log_notices();
        self.sql.forget_timeouts();
        let released = leases::release(self.sql, &run.lease).await;
        let result = match steps.and(released) {
            // Delivery has its own lease, so that a slow endpoint does not delay the next sweep's expiry of orders.
            // A ledger that does not answer would only be waited for again.
            Err(error @ (StoreError::LedgerUnavailable(_) | StoreError::LedgerNotMigrated(_))) => Err(error),
            worked => {
                let delivered = self.deliver_events(&elapsed, &mut run.report).await;
                run.log_notices();
                worked.and(delivered)
            }
        };
        Ok(SweepOutcome::Swept(Box::new(run.report), result.err()))
    }

    /// Turns the outbox on or off. Delivers events in rounds until nothing is due, the time budget is used up, or
    /// another sweeper has the lease.
    async fn deliver_events(&self, elapsed: &dyn Fn() -> Duration, report: &mut Report) -> Result<(), StoreError> {
        set_enabled(self.sql, self.events.is_some()).await?;
        let Some(target) = self.events else { return Ok(()) };
        let step = Instant::now();
        // Without the Redis trigger the next sweep writes the orders, and its caller waits until this one has ended.
        let budget = if report.written > 0 { elapsed() + BESIDE_ORDERS } else { TIME_BUDGET };
        while redis_lease::hold_or_free(self.redis, EVENTS_LEASE_KEY, self.owner, EVENTS_LEASE_MS).await? {
            let round = event_delivery::deliver_due(self.http, self.sql, target, self.clock).await?;
            report.events += round.delivered;
            report.events_failed += round.failed;
            if let Some(fault) = round.fault {
                report.add_notice("the endpoint of events is gone", "variable", &"events_url", format!("it {fault}"));
            }
            if !round.more || elapsed() > budget {
                report.more |= round.more;
                break;
            }
        }
        redis_lease::release(self.redis, EVENTS_LEASE_KEY, self.owner).await;
        report.add_time("events", step);
        Ok(())
    }
}

/// The state of one sweep.
struct Run<'a, R, S, K, P, W> {
    sweeper: &'a Sweeper<'a, R, S, K, P, W>,
    lease: Lease,
    /// The ledger's time when the sweep got its lease.
    now: Millis,
    /// The time since then.
    elapsed: &'a dyn Fn() -> Duration,
    report: Report,
}

impl<R: Redis, S: Sql, K: KeyValue, P: Provider, W: HttpClient> Run<'_, R, S, K, P, W> {
    /// Runs every step until it has nothing left to do, the time is up, or the lease is lost. While Redis does not answer,
    /// those that need only the ledger.
    async fn run_steps(&mut self) -> Result<(), StoreError> {
        let Sweeper { redis, sql, ticket_secret, .. } = *self.sweeper;
        let elapsed = self.elapsed;
        if let Err(error @ StoreError::RedisUnavailable(_)) = redis.command("TIME", Vec::new()).await {
            // In this order: an order whose payment is recorded does not expire.
            self.process_payments().await?;
            self.expire_in_ledger().await?;
            return Err(error);
        }
        let activities = activities::list_in_redis(sql, self.now).await?;
        let step = Instant::now();
        let gates = gates::compare_gates(redis, sql, &activities, self.now, &mut self.report).await?;
        self.end_step("fence", step);
        // The rest of the time is for payments, which a backlog of orders must not keep waiting.
        let time = (elapsed, TIME_BUDGET * 6 / 10);
        // Units are released before providers are called, because a provider may be slow.
        let with_messages = &gates.with_messages;
        passes::work_in_passes(redis, sql, &mut self.lease, with_messages, self.now, time, &mut self.report).await?;
        lines::serve(redis, sql, &gates.whole(), &mut self.report).await?;
        self.process_payments().await?;
        // After what is urgent, because a correction waits as long as the ledger makes it wait. A sweep without a lease
        // leaves them to the one that has it.
        if self.renew_lease(TIME_BUDGET * 2).await? {
            let (step, rotation) = (Instant::now(), self.lease.token);
            let now = self.current_time();
            gates::correct_gates(redis, sql, gates, ticket_secret, rotation, now, &mut self.report).await;
            self.end_step("correct", step);
        }
        // The next two have time of their own, however long payments took: a slow provider keeps no sale closed, and extends
        // no retention period. What other activities need came first.
        if self.renew_lease(Duration::MAX).await? {
            let step = Instant::now();
            self.continue_rebuilds().await?;
            self.end_step("rebuild", step);
        }
        if self.renew_lease(Duration::MAX).await? {
            let step = Instant::now();
            self.erase().await?;
            self.end_step("erase", step);
        }
        let (step, now) = (Instant::now(), self.current_time());
        history::record(sql, &activities, now).await?;
        sale_states::record(sql, &activities, now).await?;
        self.report.remaining = passes::count_remaining(redis, sql, &activities, now, &mut self.report).await?;
        self.end_step("remaining", step);
        Ok(())
    }

    /// Expires orders while Redis does not answer (G17). A later sweep syncs them.
    async fn expire_in_ledger(&mut self) -> Result<(), StoreError> {
        let sql = self.sweeper.sql;
        for activity in activities::list_with_due_orders(sql, self.now, Millis(0)).await? {
            let expired = order_changes::expire(sql, &activity, self.now, ORDER_BATCH_SIZE, Some(&self.lease)).await?;
            self.report.expired += expired.len();
        }
        Ok(())
    }

    /// Adds the time since `started` to a step, and logs what it found.
    fn end_step(&mut self, step: &'static str, started: Instant) {
        self.report.add_time(step, started);
        self.log_notices();
    }

    fn log_notices(&mut self) {
        self.report.notices.drain(..).for_each(|notice| (self.sweeper.log)(&notice));
    }

    /// Processes callbacks, payment sessions and refunds, in rounds.
    async fn process_payments(&mut self) -> Result<(), StoreError> {
        let step = Instant::now();
        while self.run_payment_round().await? {
            self.log_notices();
            if !self.renew_lease(TIME_BUDGET).await? {
                break;
            }
        }
        self.end_step("money", step);
        Ok(())
    }

    /// Runs one round; returns whether there was anything to do.
    async fn run_payment_round(&mut self) -> Result<bool, StoreError> {
        let Sweeper { redis, sql, provider, .. } = *self.sweeper;
        let (now, report) = (self.now, &mut self.report);
        let callbacks = callbacks::apply_pending(redis, sql, now, MAX_CALLBACKS, &report.stuck).await?;
        for (id, activity, error) in callbacks.failures {
            let event = "a callback could not be applied; it is tried again";
            match activity {
                // While Redis does not answer, an operator sees which payment waits.
                Some(activity) if !matches!(error, StoreError::RedisUnavailable(_)) => {
                    report.add_failure(&activity, &error);
                }
                _ => report.add_notice(event, "callback", &id, error.to_string()),
            }
        }
        report.callbacks += callbacks.applied;
        let Some(provider) = provider else { return Ok(callbacks.visited > 0) };
        let closed = sessions::close_due(redis, sql, provider, now, MAX_SESSIONS).await?;
        for (order_no, reason) in closed.unanswered {
            report.add_notice("the payment provider does not say; it is asked again", "order_no", &order_no, reason);
        }
        for (order_no, error) in closed.failures {
            report.add_failure(order_no.activity(), &error);
        }
        let sent = refunds::send_due(redis, sql, provider, now, MAX_REFUNDS).await?;
        for refund in sent.failed {
            let event = "refund not taken by the provider; it is tried again";
            report.add_notice(event, "order_no", &refund.order_no, refund.reason);
        }
        report.asked += closed.queried;
        report.refunds += sent.attempted;
        Ok(callbacks.visited + closed.queried + sent.attempted > 0)
    }

    /// Erases what is past its retention period, unless a sweep found nothing left in the last 10 minutes, or the clocks of
    /// the ledger and Redis differ by more than [`MAX_CLOCK_DIFFERENCE_MS`].
    async fn erase(&mut self) -> Result<(), StoreError> {
        let Sweeper { redis, sql, key_value, retention, owner, .. } = *self.sweeper;
        let (now, elapsed) = (self.now, self.elapsed);
        if !redis_lease::hold_or_free(redis, ERASE_LEASE_KEY, owner, ERASE_INTERVAL_MS).await? {
            return Ok(());
        }
        // What is erased does not come back, and a clock can be wrong by months for a moment.
        let Some(ahead_ms) = self.sweeper.redis_ahead_ms else { return Ok(()) };
        if ahead_ms.abs() > MAX_CLOCK_DIFFERENCE_MS {
            let because = format!("the clock of Redis minus that of the ledger is {} s", ahead_ms / 1_000);
            self.report.add_notice("nothing is erased, because a clock is wrong", "clock", &"Redis", because);
            return Ok(());
        }
        let addresses_before = retention.address_days.map(|days| now.plus(-days * DAY_MS));
        let callbacks_before = now.plus(-CALLBACK_DAYS * DAY_MS);
        let mut is_more = true;
        let started = elapsed();
        for _ in 0..MAX_ERASE_BATCHES {
            let addresses = match addresses_before {
                Some(before) => addresses::erase(sql, before, ERASE_BATCH).await?,
                None => 0,
            };
            let erased = addresses
                + events::erase(sql, now, ERASE_BATCH).await?
                + callback_rows::erase(sql, callbacks_before, ERASE_BATCH).await?
                + disputes::name_orders(sql, now, ERASE_BATCH).await?
                + bans::erase(sql, now, ERASE_BATCH).await?;
            self.report.erased += erased;
            is_more = erased > 0;
            if !is_more || elapsed() - started >= ERASE_TIME {
                break;
            }
        }
        // Of an activity that is not over for longer, Redis may have a gate or queued orders. Without a retention time only
        // rehearsals are erased.
        let before = retention.activity_days.map_or(Millis(0), |days| now.plus(-(days * DAY_MS).max(IN_REDIS_MS)));
        let started = elapsed();
        let has_time = || elapsed() - started < ERASE_TIME;
        let (orders, activities) =
            erasure::erase_old(sql, key_value, before, ERASE_BATCH, MAX_ERASE_BATCHES, &has_time).await?;
        self.report.erased += orders;
        self.report.erased_activities += activities;
        is_more |= orders > 0;
        if is_more {
            redis_lease::hold_or_free(redis, ERASE_LEASE_KEY, owner, ERASE_AGAIN_MS).await?;
        }
        Ok(())
    }

    /// Continues rebuilds that no request continues (G5), for 3 s. One that fails is tried again by a later sweep.
    async fn continue_rebuilds(&mut self) -> Result<(), StoreError> {
        let Sweeper { redis, sql, ticket_secret, .. } = *self.sweeper;
        let outcomes = continue_interrupted(redis, sql, ticket_secret, self.current_time(), Budget::SWEEP).await?;
        for (activity, outcome) in outcomes {
            self.report.rebuilds += 1;
            match outcome {
                Ok(RebuildOutcome::Done { .. } | RebuildOutcome::Open) => {}
                Ok(RebuildOutcome::Running(_)) => self.report.more = true,
                Ok(outcome) => {
                    let event = "an interrupted rebuild cannot be continued";
                    self.report.add_notice(event, "activity", &activity, format!("{outcome:?}"));
                }
                Err(error) => self.report.add_failure(&activity, &error),
            }
        }
        Ok(())
    }

    /// Returns the ledger's time now: when the sweep began, and the time elapsed since.
    fn current_time(&self) -> Millis {
        self.now.plus((self.elapsed)().as_millis() as i64)
    }

    /// Renews the lease; returns whether there is time left and the lease was not lost.
    async fn renew_lease(&mut self, budget: Duration) -> Result<bool, StoreError> {
        let elapsed = (self.elapsed)();
        let until = self.current_time().plus(LEASE_MS);
        let proceed = elapsed < budget && leases::renew(self.sweeper.sql, &self.lease, until).await?;
        self.report.more |= !proceed;
        Ok(proceed)
    }
}
