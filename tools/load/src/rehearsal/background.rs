//! Whether the sweeper and the order writer work, and a backup is there.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use time::{OffsetDateTime, PrimitiveDateTime, format_description};

use super::{Finding, installation::Installation};

/// Seconds after which the next sweep must have succeeded: it may take one minute, and begins every few seconds.
const MAX_SWEEP_AGE: f64 = 90.0;

/// Hours after which the next backup must be there: cron makes one a day.
const MAX_BACKUP_HOURS: i64 = 26;

/// Seconds by which the clock of Redis may be behind this one's.
const CLOCK_TOLERANCE: f64 = 5.0;

pub async fn sweeper(installation: &Installation) -> Result<Finding> {
    let Some(at) = installation.metric("stampede_sweep_last_success_timestamp_seconds").await? else {
        return Ok(Finding::Unchecked("no sweep is counted yet: the sale shows whether sweeps run".to_owned()));
    };
    let age = seconds_now() - at;
    let text = format!("the last good sweep ended {age:.0} s ago");
    Ok(if age > MAX_SWEEP_AGE {
        Finding::NoGo(format!("{text}: systemctl status stampede-sweeper, and docs/runbook.md"))
    } else {
        Finding::Go(text)
    })
}

/// Whether the order writer wrote since `started`, when orders were made. Without it, sweeps write them, seconds later.
pub async fn writer(installation: &Installation, started: OffsetDateTime) -> Result<Finding> {
    let Some(at) = installation.metric("stampede_writer_last_success_timestamp_seconds").await? else {
        return Ok(Finding::NoGo("the order writer has never run: systemctl status stampede-writer".to_owned()));
    };
    Ok(if at + CLOCK_TOLERANCE < started.unix_timestamp() as f64 {
        Finding::NoGo("sweeps wrote the orders, not the order writer: systemctl status stampede-writer".to_owned())
    } else {
        Finding::Go("the order writer wrote the orders".to_owned())
    })
}

fn seconds_now() -> f64 {
    OffsetDateTime::now_utc().unix_timestamp() as f64
}

/// The age of the newest backup in a directory of `deploy/backup/backup`.
pub fn backup(directory: &Path) -> Result<Finding> {
    if directory == Path::new("none") {
        return Ok(Finding::Unchecked(
            "backups are left to a service: see there when the last one was made".to_owned(),
        ));
    }
    let advice = format!("sudo deploy/backup/backup {}, and by cron", directory.display());
    let entries = fs::read_dir(directory).with_context(|| format!("no backup in {}: {advice}", directory.display()))?;
    // One that is not complete has another name.
    let format = format_description::parse_borrowed::<2>("[year][month][day]T[hour][minute][second]Z")?;
    let times =
        entries.flatten().filter_map(|entry| PrimitiveDateTime::parse(entry.file_name().to_str()?, &format).ok());
    let Some(newest) = times.max() else {
        return Ok(Finding::NoGo(format!("no backup in {}: {advice}", directory.display())));
    };
    let hours = (OffsetDateTime::now_utc() - newest.assume_utc()).whole_hours();
    Ok(if hours > MAX_BACKUP_HOURS {
        Finding::NoGo(format!("the newest backup is {hours} h old: {advice}"))
    } else {
        Finding::Go(format!("the newest backup is {hours} h old"))
    })
}
