//! Plans the capacity for a sale from measured costs.

mod costs;
mod sale;

use comfy_table::Cell;

pub use self::costs::Costs;
pub use self::sale::Sale;
use crate::table;

/// PostgreSQL connections of an app process and its order writer, idle ones included: deploy/README.md.
const CONNECTIONS_PER_APP: f64 = 90.0;
/// Bytes of Redis for a visitor with a ticket, and for an order that is written, on top: Redis 7.0 with 20,000 visitors
/// whose names have 21 characters, and 10,000 orders.
const VISITOR_BYTES: f64 = 216.0;
const ORDER_BYTES: f64 = 471.0;
/// PostgreSQL connections of the order writer (two batches in flight) and of the sweeper.
const BACKGROUND_CONNECTIONS: f64 = 3.0;
/// Reservations that nginx has in flight to one app process, as deploy/self-hosted configures it.
const IN_FLIGHT: f64 = 600.0;
/// Client connections of an nginx worker, as deploy/self-hosted/README.md configures it.
const WORKER_CONNECTIONS: f64 = 16_384.0;

/// A part of the sale with a load of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    pub name: &'static str,
    pub seconds: f64,
    pub per_second: f64,
    /// Cores that the functions keep busy, at the planned utilisation.
    pub cores: f64,
    /// Share of the phase in which Redis is busy; above 1 it is still busy afterwards.
    pub redis: f64,
}

/// The result.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub phases: Vec<Phase>,
    /// Seconds until the last unit is reserved; `None` if there are more units than visitors.
    pub sold_out_after: Option<f64>,
    /// Longest time that a reservation waits for Redis, in seconds.
    pub longest_wait: f64,
    /// Reservations that nginx answers with `503` until the sale is sold out, because too many are in flight. They come
    /// again.
    pub turned_away: f64,
    /// Orders in the queue when most are.
    pub longest_queue: f64,
    /// Seconds from the start until the last order is in the ledger.
    pub queue_empty_after: f64,
    /// Seconds that the ledger needs for the payments, if that is longer than planned for.
    pub payments_take: Option<f64>,
    /// PostgreSQL connections in use at the peak.
    pub postgres_connections: f64,
    /// Bytes of Redis for visitors and orders.
    pub redis_bytes: f64,
    pub nginx_workers: f64,
}

/// Computes what `sale` needs. Every figure is a bound from above: all visitors come, and all send a reservation.
pub fn plan(sale: &Sale, costs: &Costs) -> Plan {
    let phase = |name, seconds: f64, requests: f64, functions_us: f64, redis_us: f64| Phase {
        name,
        seconds,
        per_second: requests / seconds,
        cores: functions_us / 1e6 / seconds / sale.utilisation,
        redis: redis_us / 1e6 / seconds,
    };
    let tickets = phase(
        "tickets, before the start",
        sale.tickets_within,
        sale.visitors,
        sale.visitors * costs.ticket.functions_us,
        sale.visitors * costs.ticket.redis_us,
    );

    // Redis decides one reservation after the other, and all of a sale are on one server.
    let arrivals = sale.visitors / sale.within;
    let winners = sale.visitors.min(sale.units);
    let winners_done = (winners / arrivals).max(winners * costs.reserve.redis_us / 1e6);
    let all_cores = sale.visitors * costs.reserve.functions_us / 1e6 / sale.within / sale.utilisation;
    let in_flight = IN_FLIGHT * (all_cores / sale.app_cores).ceil();
    let late = (arrivals * winners_done.min(sale.within) - winners).max(0.0);
    let refused_by_script = late.min(in_flight);
    let from_memory = sale.visitors - winners - refused_by_script;
    let longest_wait = (winners_done - winners / arrivals)
        .min(in_flight * costs.reserve.redis_us / 1e6)
        .max(refused_by_script * costs.reserve.redis_us / 1e6);
    let start = phase(
        "start",
        sale.within,
        sale.visitors,
        (winners + refused_by_script) * costs.reserve.functions_us + from_memory * costs.refusal.functions_us,
        (winners + refused_by_script) * costs.reserve.redis_us + from_memory * costs.refusal.redis_us,
    );

    // The writer starts with the first order, so it is never idle until the queue is empty.
    let queue_empty_after = winners_done.max(winners / costs.writer_per_second);
    let longest_queue = (winners - costs.writer_per_second * winners_done).max(0.0);
    // Each winner polls once a second.
    let polls =
        phase("winners poll", 1.0, winners, winners * costs.status.functions_us, winners * costs.status.redis_us);

    let payers = winners * sale.pay_share;
    let [checkout, callback] = [&costs.checkout, &costs.callback];
    let payments = phase(
        "payments",
        sale.pay_within,
        2.0 * payers,
        payers * (checkout.functions_us + callback.functions_us),
        payers * (checkout.redis_us + callback.redis_us),
    );
    let ledger_seconds = payers * (1.0 / costs.checkout_per_second + 1.0 / costs.callback_per_second);
    // Little's law; the latency at full load is a bound for that at less.
    let payments_in_flight = payers / sale.pay_within * (costs.checkout_ms + costs.callback_ms) / 1e3;

    let turned_away = late - refused_by_script;
    let gates = if sale.cdn { 0.0 } else { sale.visitors };
    let through_nginx = (sale.visitors + turned_away + gates) / sale.within;
    let connections = if sale.cdn { 0.0 } else { sale.visitors };
    Plan {
        phases: vec![tickets, start, polls, payments],
        sold_out_after: (sale.visitors > sale.units).then_some(winners_done),
        longest_wait,
        turned_away,
        longest_queue,
        queue_empty_after,
        payments_take: (ledger_seconds > sale.pay_within).then_some(ledger_seconds),
        postgres_connections: payments_in_flight + BACKGROUND_CONNECTIONS,
        redis_bytes: sale.visitors * VISITOR_BYTES + winners * ORDER_BYTES,
        nginx_workers: (through_nginx / sale.nginx_per_worker).max(connections / WORKER_CONNECTIONS),
    }
}

impl Plan {
    /// Cores for functions: those of the phase that needs most.
    pub fn cores(&self) -> f64 {
        self.phases.iter().fold(0.0, |cores, phase| phase.cores.max(cores))
    }

    /// The plan as text. Every figure is rounded up.
    pub fn text(&self, sale: &Sale, costs: &Costs) -> String {
        let mut table = table::new(&["phase", "seconds", "requests/s", "cores for functions", "Redis busy"]);
        for phase in &self.phases {
            table.add_row([
                Cell::new(phase.name),
                table::number_cell(seconds(phase.seconds)),
                table::number_cell(rough(phase.per_second)),
                table::number_cell(phase.cores.ceil()),
                table::number_cell(format!("{:.0} %", (phase.redis * 100.0).ceil())),
            ]);
        }
        let apps = (self.cores() / sale.app_cores).ceil();
        let mut lines = vec![
            format!(
                "cores for functions     {:.0}: {apps:.0} app processes on machines with {:.0} cores",
                self.cores().ceil(),
                sale.app_cores
            ),
            "Redis servers           1: all keys of a sale are on one server".to_owned(),
            format!(
                "Redis memory            {} MB, and as much again while it writes its file or a replica joins",
                rough(self.redis_bytes / 1e6)
            ),
            match self.sold_out_after {
                Some(after) => format!("sold out after          {} s", seconds(after)),
                None => "sold out                not by these visitors".to_owned(),
            },
            format!("longest wait for Redis  {} s", seconds(self.longest_wait)),
            format!(
                "turned away by nginx    {} at most, until the sale is sold out; they come again",
                rough(self.turned_away)
            ),
            format!(
                "order queue             {} orders at most, empty {} s after the start",
                rough(self.longest_queue),
                seconds(self.queue_empty_after)
            ),
            format!(
                "PostgreSQL connections  {:.0} in use; with idle ones at most {:.0}",
                self.postgres_connections.ceil(),
                apps * CONNECTIONS_PER_APP
            ),
            format!("nginx workers           {:.0}", self.nginx_workers.ceil()),
        ];
        let overloaded = self.phases.iter().filter(|phase| phase.redis > 1.0);
        lines.extend(overloaded.map(|phase| {
            let takes = phase.seconds * phase.redis;
            format!(
                "NOT REACHED: Redis needs {} s for {} of {} s; more time or several sales on several servers help, more \
                 cores do not",
                seconds(takes),
                phase.name,
                seconds(phase.seconds)
            )
        }));
        lines.extend(self.payments_take.map(|takes| {
            format!("NOT REACHED: the ledger needs {} s for payments of {} s", seconds(takes), seconds(sale.pay_within))
        }));
        format!("Costs: {}\n\n{table}\n\n{}", costs.source, lines.join("\n"))
    }
}

/// Seconds, rounded up to a tenth.
fn seconds(value: f64) -> String {
    let tenths = (value * 10.0 - 1e-6).ceil().max(0.0);
    if tenths % 10.0 == 0.0 { format!("{:.0}", tenths / 10.0) } else { format!("{:.1}", tenths / 10.0) }
}

/// A count, rounded up to two significant digits.
fn rough(value: f64) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    let unit = 10_f64.powf((value.log10().floor() - 1.0).max(0.0));
    format!("{:.0}", (value / unit - 1e-9).ceil() * unit)
}

#[cfg(test)]
mod tests {
    use super::costs::Cost;
    use super::*;

    fn costs() -> Costs {
        let cost = |functions_us, redis_us| Cost { functions_us, redis_us };
        Costs {
            source: "a test".to_owned(),
            ticket: cost(200.0, 40.0),
            reserve: cost(100.0, 50.0),
            refusal: cost(60.0, 0.0),
            status: cost(80.0, 15.0),
            checkout: cost(1_000.0, 100.0),
            callback: cost(1_500.0, 100.0),
            checkout_per_second: 1_000.0,
            callback_per_second: 500.0,
            checkout_ms: 40.0,
            callback_ms: 60.0,
            writer_per_second: 10_000.0,
        }
    }

    fn sale() -> Sale {
        Sale {
            visitors: 100_000.0,
            units: 10_000.0,
            within: 5.0,
            tickets_within: 100.0,
            pay_share: 0.5,
            pay_within: 100.0,
            app_cores: 8.0,
            utilisation: 0.5,
            nginx_per_worker: 10_000.0,
            cdn: false,
            from: None,
        }
    }

    #[test]
    fn a_sale_that_redis_keeps_up_with_is_sold_out_by_arrivals() {
        let plan = plan(&sale(), &costs());
        // 20,000 reservations a second arrive, as many as Redis decides: no buyer waits.
        assert_eq!(plan.sold_out_after, Some(0.5));
        assert_eq!(plan.longest_wait, 0.0);
        // 10,000 at 100 µs and 90,000 at 60 µs in 5 s, at half of each core.
        assert!((plan.phases[1].cores - 2.56).abs() < 1e-9, "{plan:?}");
        assert!((plan.phases[1].redis - 0.1).abs() < 1e-9, "{plan:?}");
        assert_eq!(plan.longest_queue, 5_000.0);
        assert_eq!(plan.queue_empty_after, 1.0);
        // 50 payments a second, each 100 ms in the ledger, and the background.
        assert_eq!(plan.postgres_connections, 8.0);
        assert_eq!(plan.payments_take, None);
        // 100,000 visitors, 10,000 of them with an order.
        assert_eq!(plan.redis_bytes, 26_310_000.0);
        // A connection of each visitor counts more than 40,000 requests a second.
        assert_eq!(plan.nginx_workers.ceil(), 7.0);
    }

    #[test]
    fn a_faster_crowd_is_turned_away_until_redis_has_decided() {
        let sale = Sale { within: 1.0, ..sale() };
        let plan = plan(&sale, &costs());
        // 10,000 reservations take 0.5 s. Of the 40,000 others that came meanwhile, 3 app processes have 1,800 in flight.
        assert_eq!(plan.sold_out_after, Some(0.5));
        assert_eq!(plan.turned_away, 38_200.0);
        // 1,800 reservations in flight at 50 µs.
        assert!((plan.longest_wait - 0.09).abs() < 1e-9, "{plan:?}");
        assert!((plan.phases[1].redis - 0.59).abs() < 1e-9, "{plan:?}");
        assert!(!plan.text(&sale, &costs()).contains("NOT REACHED"));
    }

    #[test]
    fn more_units_than_redis_decides_in_time_are_not_reached() {
        let sale = Sale { units: 50_000.0, within: 2.0, ..sale() };
        let text = plan(&sale, &costs()).text(&sale, &costs());
        assert!(text.contains("NOT REACHED: Redis needs 2.6 s for start of 2 s"), "{text}");
    }

    #[test]
    fn units_for_everybody_are_never_sold_out_and_payments_may_take_longer() {
        let plan = plan(&Sale { units: 200_000.0, cdn: true, ..sale() }, &costs());
        assert_eq!(plan.sold_out_after, None);
        assert_eq!(plan.queue_empty_after, 10.0);
        assert_eq!(plan.payments_take.map(f64::round), Some(150.0));
        assert_eq!(plan.nginx_workers, 2.0);
    }

    #[test]
    fn figures_are_rounded_up() {
        assert_eq!([0.0, 0.01, 1.0, 2.34].map(seconds), ["0", "0.1", "1", "2.4"]);
        assert_eq!([0.0, 0.2, 7.0, 99.1, 101.0, 333_333.0].map(rough), ["0", "1", "7", "100", "110", "340000"]);
    }
}
