//! Tests of rate limits (B4): the Lua code against an independent model, on random arrivals.

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use stores::{
    Redis,
    lua::LIMITS,
    ports::{RedisArg, RedisValue},
};

use crate::fixture::new_fixture;

/// Calls the script's `limit` with a time that the test sets. `PERSIST` removes the TTLs, which elapse in real time.
const DRIVER: &str = "
local policies = {}
for at, key in ipairs(KEYS) do policies[at] = { 'p' .. at, ARGV[1 + at], key } end
local limits, name, wait_ms = limit(policies, tonumber(ARGV[1]))
for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end
return { limits, name or '', wait_ms or 0 }";

/// The model: a token bucket, refilled when it is used. GCRA is the same algorithm in terms of times.
#[derive(Debug, Clone)]
struct Bucket {
    count: f64,
    period: f64,
    tokens: f64,
    refilled_at: f64,
}

impl Bucket {
    fn new(count: u32, period: u32) -> Self {
        Self { count: count.into(), period: period.into(), tokens: count.into(), refilled_at: 0.0 }
    }

    fn refill(&mut self, now: f64) {
        let rate = self.count / self.period;
        self.tokens = (self.tokens + (now - self.refilled_at) * rate).min(self.count);
        self.refilled_at = now;
    }

    /// Returns the milliseconds until there is a whole token; 0 if there is one.
    fn wait(&self) -> f64 {
        ((1.0 - self.tokens) * self.period / self.count).max(0.0)
    }
}

/// Within this many milliseconds of a whole token both results are correct: the script stores microseconds.
const TOLERANCE_MS: f64 = 0.05;

/// Takes a token from every bucket, or from none if one is empty. Returns the first empty one's index and wait in ms.
fn charge(buckets: &mut [Bucket]) -> Option<(usize, f64)> {
    if let Some(at) = buckets.iter().position(|bucket| bucket.wait() > 0.0) {
        return Some((at, buckets[at].wait()));
    }
    buckets.iter_mut().for_each(|bucket| bucket.tokens -= 1.0);
    None
}

#[test]
fn the_script_agrees_with_token_buckets_on_random_arrivals() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fixture = runtime.block_on(new_fixture("sqlite", 1, 1));
    let script = format!("{LIMITS}\n{DRIVER}");
    let cases = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() });
    // One to three limits; gaps between requests that are often 0 ms and sometimes long.
    let gaps = vec(prop_oneof![3 => 0_u32..4, 3 => 1_u32..300, 1 => 1_000_u32..20_000], 1..80);
    let limits = vec((1_u32..8, prop_oneof![Just(1_000_u32), Just(7_000), 500_u32..30_000]), 1..4);
    let outcome = runner.run(&(limits, gaps), |(limits, gaps)| {
        let case = cases.replace(cases.get() + 1);
        let mut buckets: Vec<_> = limits.iter().map(|(count, period)| Bucket::new(*count, *period)).collect();
        let mut now = 1_700_000_000_000.0;
        buckets.iter_mut().for_each(|bucket| bucket.refilled_at = now);
        for (step, gap) in gaps.iter().enumerate() {
            now += f64::from(*gap);
            let mut call: Vec<RedisArg> = vec![script.as_str().into(), limits.len().to_string().into()];
            call.extend((0..limits.len()).map(|at| format!("model:{case}:{at}").into_bytes()));
            call.push(format!("{now:.3}").into());
            call.extend(limits.iter().map(|(count, period)| format!("{count}:{period}").into_bytes()));
            let reply = runtime.block_on(fixture.redis.command("EVAL", call)).unwrap();
            let [RedisValue::Bytes(_), RedisValue::Bytes(name), RedisValue::Int(wait)] = &reply[..] else {
                panic!("{reply:?}");
            };
            let before = buckets.clone();
            let name = String::from_utf8(name.clone()).unwrap();
            let context = format!("step {step} at {now}: {limits:?} {before:?}");
            buckets.iter_mut().for_each(|bucket| bucket.refill(now));
            let near_whole_token =
                |bucket: &Bucket| ((1.0 - bucket.tokens) * bucket.period / bucket.count).abs() < TOLERANCE_MS;
            if buckets.iter().any(near_whole_token) {
                if name.is_empty() {
                    buckets.iter_mut().for_each(|bucket| bucket.tokens -= 1.0);
                }
                continue;
            }
            match charge(&mut buckets) {
                None => prop_assert_eq!(name, "", "{}", context),
                Some((at, expected)) => {
                    prop_assert_eq!(name, format!("p{}", at + 1), "{}", context);
                    prop_assert!((*wait as f64 - expected).abs() <= 1.5, "{} not {}: {}", wait, expected, context);
                }
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[tokio::test]
async fn no_wait_is_longer_than_the_current_limit_requires() {
    let fixture = new_fixture("sqlite", 1, 1).await;
    let script = format!("{LIMITS}\n{DRIVER}");
    let wait_ms = async |limit: &str, now: i64| {
        let call = [script.as_str(), "1", "model:loosened", &now.to_string(), limit].map(RedisArg::from);
        match &fixture.redis.command("EVAL", call.to_vec()).await.unwrap()[..] {
            [_, _, RedisValue::Int(wait)] => *wait,
            reply => panic!("{reply:?}"),
        }
    };
    let (strict, loose, now) = ("2:600000", "60:60000", 1_700_000_000_000);
    assert_eq!([wait_ms(strict, now).await, wait_ms(strict, now).await, wait_ms(strict, now).await], [0, 0, 300_000]);
    // An operator loosens the limit; then the clock, ten minutes fast until now, is corrected.
    assert_eq!([wait_ms(loose, now).await, wait_ms(loose, now + 1_000).await], [1_000, 0]);
    assert_eq!([wait_ms(loose, now - 600_000).await, wait_ms(loose, now - 599_000).await], [1_000, 0]);
}
