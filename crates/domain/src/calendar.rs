//! A calendar file (RFC 5545) with an activity, and a reminder ten minutes before it starts.

use crate::{ids::ActivityId, time::Millis};

const MAX_LINE_BYTES: usize = 75;

/// An activity as a calendar has it.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Its id.
    pub id: &'a ActivityId,
    /// Its title, in the reader's language.
    pub title: &'a str,
    /// When reservations open.
    pub starts_at: Millis,
    /// When reservations end.
    pub ends_at: Millis,
    /// Public base URL of the shop, without a path.
    pub shop_url: &'a str,
}

impl Event<'_> {
    /// The file, as of `now`.
    #[must_use]
    pub fn file(&self, now: Millis) -> String {
        let Self { id, title, starts_at, ends_at, shop_url } = self;
        let (title, host) = (escape(title), shop_url.rsplit('/').next().unwrap_or_default());
        let lines = [
            "BEGIN:VCALENDAR".to_owned(),
            "VERSION:2.0".to_owned(),
            "PRODID:-//Stampede//Sale//EN".to_owned(),
            "BEGIN:VEVENT".to_owned(),
            format!("UID:{id}@{host}"),
            format!("DTSTAMP:{}", stamp(now)),
            format!("DTSTART:{}", stamp(*starts_at)),
            format!("DTEND:{}", stamp(*ends_at)),
            format!("SUMMARY:{title}"),
            format!("URL:{shop_url}/sale?activity={id}"),
            "BEGIN:VALARM".to_owned(),
            "ACTION:DISPLAY".to_owned(),
            "TRIGGER:-PT10M".to_owned(),
            format!("DESCRIPTION:{title}"),
            "END:VALARM".to_owned(),
            "END:VEVENT".to_owned(),
            "END:VCALENDAR".to_owned(),
        ];
        lines.iter().map(|line| fold(line)).collect()
    }
}

/// A UTC time, such as `20260131T235959Z`.
fn stamp(time: Millis) -> String {
    let mut text = time.to_string().replace(['-', ':'], "");
    text.truncate(15);
    text + "Z"
}

/// A title has no line breaks.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace(';', "\\;").replace(',', "\\,")
}

/// Breaks a line into lines of at most 75 bytes, not inside a character; all but the first begin with a space.
fn fold(mut line: &str) -> String {
    let mut folded = String::new();
    let mut room = MAX_LINE_BYTES;
    while line.len() > room {
        let (first, rest) = line.split_at(line.floor_char_boundary(room));
        folded.extend([first, "\r\n "]);
        // The space counts.
        (line, room) = (rest, MAX_LINE_BYTES - 1);
    }
    folded + line + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_activity_with_a_reminder() {
        let id = ActivityId::parse("spring").expect("an id");
        let (starts_at, ends_at) = (Millis(1_500), Millis(86_400_000));
        let shop_url = "https://shop.example:8443";
        let file = Event { id: &id, title: r"Spring; a, \b", starts_at, ends_at, shop_url }.file(Millis(0));
        for line in [
            "UID:spring@shop.example:8443\r\n",
            "DTSTAMP:19700101T000000Z\r\nDTSTART:19700101T000001Z\r\nDTEND:19700102T000000Z\r\n",
            "SUMMARY:Spring\\; a\\, \\\\b\r\nURL:https://shop.example:8443/sale?activity=spring\r\n",
            "TRIGGER:-PT10M\r\nDESCRIPTION:Spring\\; a\\, \\\\b\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
        ] {
            assert!(file.contains(line), "{line:?} in {file}");
        }
    }

    #[test]
    fn long_lines_are_folded_between_characters() {
        let line = format!("SUMMARY:{}", "春".repeat(100));
        let folded = fold(&line);
        assert!(folded.split("\r\n").all(|part| part.len() <= MAX_LINE_BYTES), "{folded}");
        assert_eq!(folded.replace("\r\n ", "").trim_end(), line);
        assert_eq!(fold(&"x".repeat(75)), format!("{}\r\n", "x".repeat(75)));
    }
}
