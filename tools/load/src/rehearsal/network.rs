//! Clocks and certificate, as the answers show them.

use anyhow::{Context, Result};
use http::Method;
use time::{
    OffsetDateTime,
    format_description::{self, well_known::Rfc3339},
};
use x509_cert::{Certificate, der::Decode};

use super::{Finding, installation::Installation};

/// Seconds by which a clock may differ: headers have whole ones, and a cache may keep the list for one or two.
const MAX_DIFFERENCE: f64 = 5.0;

/// Days for which the certificate must be valid.
const MIN_DAYS: i64 = 14;

/// Compares the clocks of the web server and of the app with this machine's.
pub async fn clocks(installation: &Installation) -> Result<Finding> {
    let answer = installation.send(Method::GET, "/api/activities", &[], "").await?;
    let date = answer.headers.get("date").and_then(|date| parse_date(date.to_str().ok()?));
    let body = answer.json();
    // Each sale of the list has the app's time.
    let app = body["items"][0]["server_time"].as_str();
    let app = app.map(|text| OffsetDateTime::parse(text, &Rfc3339)).transpose()?;
    let redis = installation.metric("stampede_clock_ahead_seconds{store=\"redis\"}").await?;
    Ok(compare(date, app, redis, answer.at))
}

/// `redis` is by how many seconds the clock of Redis, which opens sales, is ahead of the app's.
fn compare(
    date: Option<OffsetDateTime>,
    app: Option<OffsetDateTime>,
    redis: Option<f64>,
    here: OffsetDateTime,
) -> Finding {
    let ahead_of_here = |clock: OffsetDateTime| (clock - here).as_seconds_f64();
    let clocks = [
        ("web server", "this machine", date.map(ahead_of_here)),
        ("app", "this machine", app.map(ahead_of_here)),
        ("Redis", "the app", redis),
    ];
    for (name, other, ahead) in clocks {
        let ahead = ahead.unwrap_or_default();
        if ahead.abs() > MAX_DIFFERENCE {
            let text =
                format!("the clock of {name} minus that of {other} is {ahead:.0} s: timedatectl shows whose is wrong");
            return Finding::NoGo(text);
        }
    }
    let compared: Vec<_> = clocks.iter().filter(|(.., ahead)| ahead.is_some()).map(|(name, ..)| *name).collect();
    if compared.is_empty() {
        return Finding::Unchecked("no answer has a time".to_owned());
    }
    Finding::Go(format!("the clocks of {} and this machine agree within {MAX_DIFFERENCE} s", compared.join(", ")))
}

/// Parses the header `Date` (RFC 9110).
fn parse_date(text: &str) -> Option<OffsetDateTime> {
    let format = "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT";
    let format = format_description::parse_borrowed::<2>(format).ok()?;
    time::PrimitiveDateTime::parse(text, &format).ok().map(time::PrimitiveDateTime::assume_utc)
}

/// The days that the certificate has left; a wrong name or issuer is an error of every request.
pub async fn certificate(installation: &Installation) -> Result<Finding> {
    let url = &installation.target.url;
    if let Some(host) = url.strip_prefix("http://") {
        let is_local = ["127.", "localhost", "[::1]"].iter().any(|local| host.starts_with(local));
        return Ok(match is_local {
            true => Finding::Unchecked("plain HTTP on this machine: give buyers' URL as --url".to_owned()),
            false => Finding::NoGo(format!("{url} is plain HTTP: see deploy/self-hosted/README.md")),
        });
    }
    let answer = installation.send(Method::GET, "/healthz", &[], "").await?;
    validity(url, &answer.certificate.context("no certificate was shown")?)
}

fn validity(url: &str, certificate: &[u8]) -> Result<Finding> {
    let certificate = Certificate::from_der(certificate)?;
    let ends_at = i64::try_from(certificate.tbs_certificate.validity.not_after.to_unix_duration().as_secs())?;
    let days = (ends_at - OffsetDateTime::now_utc().unix_timestamp()) / 86_400;
    let text = format!("the certificate of {url} is valid for {days} days");
    Ok(if days < MIN_DAYS { Finding::NoGo(format!("{text}: certbot renew")) } else { Finding::Go(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_read() {
        let date = parse_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(date.unix_timestamp(), 784_111_777);
    }

    #[test]
    fn each_clock_is_compared_with_this_one() {
        let here = OffsetDateTime::UNIX_EPOCH;
        let after = |seconds| here + time::Duration::seconds(seconds);
        assert!(matches!(compare(Some(after(1)), Some(after(-2)), Some(0.1), here), Finding::Go(_)));
        assert!(matches!(compare(None, None, None, here), Finding::Unchecked(_)));
        assert!(matches!(compare(Some(here), None, None, here), Finding::Go(_)));
        for (date, app, redis, name) in
            [(after(60), here, 0.0, "web server"), (here, after(-60), 0.0, "app"), (here, here, 60.0, "Redis")]
        {
            match compare(Some(date), Some(app), Some(redis), here) {
                Finding::NoGo(text) => assert!(text.contains(&format!("of {name} ")), "{text}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_certificate_must_last_two_weeks() {
        let directory = tempfile::TempDir::new().unwrap();
        for (days, is_go) in ["5", "90"].into_iter().zip([false, true]) {
            let file = directory.path().join("certificate");
            let request = [
                "req",
                "-x509",
                "-newkey",
                "ed25519",
                "-nodes",
                "-subj",
                "/CN=a",
                "-outform",
                "DER",
                "-keyout",
                "/dev/null",
            ];
            let made =
                std::process::Command::new("openssl").args(request).args(["-days", days, "-out"]).arg(&file).output();
            assert!(made.unwrap().status.success());
            let finding = validity("https://a", &std::fs::read(&file).unwrap()).unwrap();
            assert_eq!(matches!(finding, Finding::Go(_)), is_go, "{finding:?}");
        }
    }
}
