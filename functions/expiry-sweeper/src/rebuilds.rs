//! Continues rebuilds that no request continues (G5).

use domain::time::Millis;
use platform::{http::ApiError, ledger::SpinLedger, log, redis::SpinRedis};
use workflows::recovery::{
    rebuild::{Budget, RebuildOutcome, continue_interrupted},
    report::Report,
};

/// Continues interrupted rebuilds for 3 s. One that fails is logged, and tried again by a later sweep.
pub async fn continue_rebuilds(
    ledger: &SpinLedger,
    ticket_secret: &str,
    now: Millis,
    report: &mut Report,
) -> Result<(), ApiError> {
    for (activity, outcome) in continue_interrupted(&SpinRedis, ledger, ticket_secret, now, Budget::SWEEP).await? {
        report.rebuilds += 1;
        match outcome {
            Ok(RebuildOutcome::Done { .. } | RebuildOutcome::Open) => {}
            Ok(RebuildOutcome::Running(_)) => report.more = true,
            Ok(outcome) => {
                let fields = [("activity", activity.as_str().into()), ("because", format!("{outcome:?}").into())];
                log::error("an interrupted rebuild cannot be continued", &fields);
            }
            Err(error) => report.add_failure(&activity, error),
        }
    }
    Ok(())
}
