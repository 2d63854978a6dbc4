// Formats money, times and durations in the language of the page.

import { formatMoney } from "../../client/index.js";
import * as times from "../../client/times.js";
import { browserLocales, language, t } from "./i18n.js";

/** The language tag by which numbers and times are formatted. */
export const locale = language === "zh" ? "zh-CN" : (browserLocales.find((tag) => tag.startsWith("en")) ?? "en");

/** Formats an amount in minor units: `1999, "EUR"` → `€19.99`. */
export const money = (amount, currency) => formatMoney(amount, currency, locale);

/** Formats a price, which may be nothing. */
export const priceText = (amount, currency) => (amount === 0 ? t("sale.free") : money(amount, currency));

/** Formats a number with the separators of the language. */
export const count = (number) => new Intl.NumberFormat(locale).format(number);

/** Formats an RFC 3339 time with its date, in the browser's time zone. */
export const moment = (text) =>
  new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" }).format(new Date(text));

/** Formats an RFC 3339 time with its date and seconds, in the browser's time zone. */
export const exactMoment = (text) =>
  new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" }).format(new Date(text));

/** Formats the time of day of a time (RFC 3339, or in milliseconds since 1970), with seconds. */
export const clockTime = (time) => new Intl.DateTimeFormat(locale, { timeStyle: "medium" }).format(new Date(time));

/** Formats the time of day of a time (as above), without seconds. */
export const minuteTime = (time) => new Intl.DateTimeFormat(locale, { timeStyle: "short" }).format(new Date(time));

/** Formats milliseconds as `2d 03:04:05`, `03:04:05` or `04:05`; rounded up to seconds, and zero if negative. */
export const countdown = (milliseconds) => times.countdown(milliseconds, language);

/** Formats seconds in one unit: `45 seconds`, `5 minutes`, `14 days`, `5 分钟`. */
export const duration = (seconds) => times.duration(seconds, locale);

/** Formats the day and time of day of an RFC 3339 time: `Today 20:15`. `now` is in milliseconds since 1970. */
export function dayAndTime(text, now) {
  const inside = dayAndTimeInside(text, now);
  return inside.charAt(0).toLocaleUpperCase(locale) + inside.slice(1);
}

/** As `dayAndTime`, inside a sentence: `today 20:15`. */
export const dayAndTimeInside = (text, now = Date.now()) => `${day(new Date(text), new Date(now))} ${minuteTime(text)}`;

/** Formats a period between RFC 3339 times in the browser's time zone: `Today 20:15–21:13 (CET)`. */
export function period(from, to, now = Date.now()) {
  const isOneDay = new Date(from).toDateString() === new Date(to).toDateString();
  const end = isOneDay ? `–${minuteTime(to)}` : ` – ${dayAndTimeInside(to, now)}`;
  const zone = new Intl.DateTimeFormat(locale, { timeZoneName: "short" }).formatToParts(new Date(from))
    .find(({ type }) => type === "timeZoneName").value;
  return `${dayAndTime(from, now)}${end} (${zone})`;
}

/** `today`, `tomorrow`, or `Fri 27 Nov`. */
function day(date, now) {
  const midnight = (time) => new Date(time.getFullYear(), time.getMonth(), time.getDate());
  const days = Math.round((midnight(date) - midnight(now)) / 86_400_000);
  if (Math.abs(days) <= 1) return new Intl.RelativeTimeFormat(locale, { numeric: "auto" }).format(days, "day");
  const year = date.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return new Intl.DateTimeFormat(locale, { weekday: "short", day: "numeric", month: "short", year }).format(date);
}

/** As `countdown`, without the zero in front of the minutes: `4:05`. */
export const shortCountdown = (milliseconds) => countdown(milliseconds).replace(/^0(?=\d)/, "");
