// A calendar file (RFC 5545) with the start of a sale, and a reminder ten minutes before it.

const MAX_LINE_BYTES = 75;

/** The URL of a calendar file for an activity, whose page has the address `page`. */
export function calendarUrl({ id, title, starts_at: startsAt, ends_at: endsAt }, page) {
  const lines = [
    "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Stampede//Sale//EN",
    "BEGIN:VEVENT", `UID:${id}@${new URL(page).host}`, `DTSTAMP:${stamp(new Date())}`,
    `DTSTART:${stamp(startsAt)}`, `DTEND:${stamp(endsAt)}`, `SUMMARY:${escape(title)}`, `URL:${page}`,
    "BEGIN:VALARM", "ACTION:DISPLAY", "TRIGGER:-PT10M", `DESCRIPTION:${escape(title)}`, "END:VALARM",
    "END:VEVENT", "END:VCALENDAR",
  ];
  const text = lines.map((line) => `${fold(line)}\r\n`).join("");
  return URL.createObjectURL(new Blob([text], { type: "text/calendar" }));
}

/** A UTC time, such as `20260131T235959Z`. */
const stamp = (time) => new Date(time).toISOString().replace(/[-:]|\.\d+/g, "");

const escape = (text) => text.replace(/[\\;,]/g, "\\$&").replace(/\r?\n/g, "\\n");

/** Breaks a line into lines of at most 75 bytes, not inside a character; all but the first begin with a space. */
function fold(line) {
  const encoder = new TextEncoder();
  const parts = [""];
  for (const character of line) {
    const next = parts.at(-1) + character;
    // The space counts.
    if (encoder.encode(next).length > MAX_LINE_BYTES - (parts.length > 1 ? 1 : 0)) parts.push(character);
    else parts[parts.length - 1] = next;
  }
  return parts.join("\r\n ");
}
