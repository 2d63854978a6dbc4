use super::*;
use crate::commands::stats::SkuStats;

fn activities() -> RecentStats {
    let sku = |sku: &str, left| SkuStats {
        sku: sku.to_owned(),
        total: 9,
        left,
        held: 2,
        queued: 1,
        pending: 1,
        sold: 3,
        waiting: 0,
        to_offer: 0,
    };
    let stats = ActivityStats {
        server_time: Millis(0),
        enqueued: 7,
        written: 5,
        queue: 2,
        stream: 2,
        oldest_ms: 1_500,
        lost: 0,
        drain_rate: 0,
        skus: vec![sku("a", Some(4)), sku("b", None)],
        refusals: [("sold_out".to_owned(), 6)].into(),
        refused_sign_ins: [("exp".to_owned(), 2)].into(),
    };
    let activities = vec![(ActivityId::parse("sale").expect("id"), stats)];
    RecentStats { activities, failures: Vec::new(), foreign_callbacks: Some(3) }
}

fn ledger() -> LedgerState {
    let backlog = Backlog { events: 1, oldest_event_at: Millis(5_000), refunds: 2, ..Backlog::default() };
    let audit = AuditSummary { ok: false, drift: vec![("a".to_owned(), -1)] };
    let audits = vec![(ActivityId::parse("sale").expect("id"), audit)];
    let without_gate = vec![ActivityId::parse("other").expect("id")];
    LedgerState {
        backlog,
        audits,
        sends_events: true,
        endpoint_gone: 1,
        endpoint_disabled: false,
        without_gate,
        schema: 3,
    }
}

fn figures<'a>(
    redis: Option<&'a RecentStats>,
    counts: &'a [(Vec<String>, i64)],
    ledger: Option<&'a LedgerState>,
) -> Figures<'a> {
    Figures {
        version: "1.2.3",
        redis,
        redis_writes: true,
        counts,
        redis_ahead_ms: redis.map(|_| -250),
        ledger,
        now: Millis(9_999),
    }
}

fn counts() -> Vec<(Vec<String>, i64)> {
    let texts = [
        ("call redis script ok", 9),
        ("duration GET /api/a 0", 1),
        ("duration GET /api/a 14", 2),
        ("last sweep ok", 1_500),
        ("request GET /api/a 200 ", 48),
        ("request GET /api/a 503 overloaded", 5),
        ("request   404 ", 1),
        ("time GET /api/a", 30_500_000),
        ("work sweep failed", 2),
        ("work of a later version", 2),
    ];
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    texts.map(|(text, count)| (words(text), count)).into()
}

#[test]
fn every_figure_is_a_line_with_its_labels() {
    let bucket = |le: &str, count: i64| {
        let labels = r#"http_request_method="GET",http_route="/api/a""#;
        format!("http_server_request_duration_seconds_bucket{{{labels},le=\"{le}\"}} {count}")
    };
    let bounds =
        ["0.005", "0.01", "0.025", "0.05", "0.075", "0.1", "0.25", "0.5", "0.75", "1", "2.5", "5", "7.5", "10"];
    let buckets: Vec<_> = bounds.iter().map(|le| bucket(le, 1)).chain([bucket("+Inf", 3)]).collect();
    let mut expected = vec![
        r#"stampede_build_info{version="1.2.3",schema="3"} 1"#,
        r#"stampede_store_up{store="redis"} 1"#,
        r#"stampede_store_up{store="ledger"} 1"#,
        r#"stampede_clock_ahead_seconds{store="redis"} -0.25"#,
        r#"stampede_http_requests_total{http_request_method="GET",http_route="/api/a",http_response_status_code="200"} 48"#,
        r#"stampede_http_requests_total{http_request_method="GET",http_route="/api/a",http_response_status_code="503",error_type="overloaded"} 5"#,
        r#"stampede_http_requests_total{http_request_method="",http_route="",http_response_status_code="404"} 1"#,
        r#"stampede_store_calls_total{store="redis",kind="script",result="ok"} 9"#,
        r#"stampede_sweeps_total{result="failed"} 2"#,
        "stampede_sweep_last_success_timestamp_seconds 1.5",
    ];
    expected.extend(buckets.iter().map(String::as_str));
    expected.extend([
        r#"http_server_request_duration_seconds_sum{http_request_method="GET",http_route="/api/a"} 30.5"#,
        r#"http_server_request_duration_seconds_count{http_request_method="GET",http_route="/api/a"} 3"#,
        "stampede_foreign_callbacks_total 3",
        r#"stampede_stock_left{activity="sale",sku="a"} 4"#,
        r#"stampede_units_held{activity="sale",sku="a"} 2"#,
        r#"stampede_units_held{activity="sale",sku="b"} 2"#,
        r#"stampede_units_sold{activity="sale",sku="a"} 3"#,
        r#"stampede_units_sold{activity="sale",sku="b"} 3"#,
        r#"stampede_queue_length{activity="sale"} 2"#,
        r#"stampede_queue_oldest_age_seconds{activity="sale"} 1.5"#,
        r#"stampede_orders_enqueued_total{activity="sale"} 7"#,
        r#"stampede_orders_written_total{activity="sale"} 5"#,
        r#"stampede_refusals_total{activity="sale",code="sold_out"} 6"#,
        r#"stampede_refused_sign_ins_total{activity="sale",reason="exp"} 2"#,
        r#"stampede_gate_missing{activity="other"} 1"#,
        r#"stampede_audit_ok{activity="sale"} 0"#,
        r#"stampede_drift{activity="sale",sku="a"} -1"#,
        "stampede_events_waiting 1",
        "stampede_events_oldest_age_seconds 4",
        "stampede_events_failed 0",
        "stampede_events_disabled 0",
        "stampede_events_gone 1",
        "stampede_refunds_open 2",
        "stampede_refunds_stuck 0",
        "stampede_refunds_oldest_age_seconds 0",
        "stampede_callbacks_parked 0",
        "stampede_callbacks_waiting 0",
        "stampede_callbacks_stuck 0",
        "stampede_sessions_unanswered 0",
        "stampede_dead_letters 0",
        "stampede_orders_due 0",
        "stampede_orders_unsynced 0",
        "stampede_rebuilds_unfinished 0",
        "stampede_disputes_open 0",
        "stampede_redis_losses_total 0",
    ]);
    let text = text(figures(Some(&activities()), &counts(), Some(&ledger())));
    assert_eq!(text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(), expected);
    for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
        let kind = match line {
            line if line.contains("_total ") => "counter",
            line if line.contains("_duration_") => "histogram",
            _ => "gauge",
        };
        assert!(line.ends_with(kind), "{line}");
    }
}

#[test]
fn redis_is_not_up_where_it_failed_on_an_activity_and_the_figures_of_the_others_are_shown() {
    let failures = vec![(ActivityId::parse("other").expect("id"), StoreError::RedisRefused("WRONGTYPE".to_owned()))];
    let text = text(figures(Some(&RecentStats { failures, ..activities() }), &[], None));
    assert!(text.contains(r#"stampede_store_up{store="redis"} 0"#), "{text}");
    assert!(text.contains(r#"stampede_units_sold{activity="sale",sku="a"} 3"#), "{text}");
    assert!(text.contains(r#"stampede_store_up{store="ledger"} 0"#) && !text.contains("_events_"), "{text}");
}

#[test]
fn redis_is_not_up_where_it_takes_no_write() {
    let text = text(Figures { redis_writes: false, ..figures(Some(&activities()), &[], None) });
    assert!(text.contains(r#"stampede_store_up{store="redis"} 0"#), "{text}");
}

#[test]
fn without_waiting_events_and_activities_there_is_no_age_and_no_empty_metric() {
    let ledger = LedgerState { backlog: Backlog::default(), audits: vec![], without_gate: vec![], ..ledger() };
    let text = text(figures(Some(&RecentStats::default()), &[], Some(&ledger)));
    assert!(text.contains("\nstampede_events_oldest_age_seconds 0\n"), "{text}");
    assert!(!text.contains("stampede_queue_length") && !text.contains("stampede_audit_ok"), "{text}");
    let off = LedgerState { sends_events: false, ..ledger };
    let text = super::text(figures(Some(&RecentStats::default()), &[], Some(&off)));
    assert!(!text.contains("stampede_events_"), "{text}");
}
