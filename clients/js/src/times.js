// Formats times that are left.

/**
 * Formats milliseconds as `2d 03:04:05`, `03:04:05` or `04:05`; rounded up to seconds, and zero if negative.
 * @param {number} milliseconds
 * @param {string} [language]
 */
export function countdown(milliseconds, language = "en") {
  const total = Math.max(0, Math.ceil(milliseconds / 1000));
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  const [days, hours] = [Math.floor(total / 86_400), Math.floor(total / 3600) % 24];
  const rest = `${two(Math.floor(total / 60) % 60)}:${two(total % 60)}`;
  if (days) return `${days}${language.startsWith("zh") ? "天" : "d"} ${two(hours)}:${rest}`;
  return hours ? `${two(hours)}:${rest}` : rest;
}

/**
 * Formats seconds in one unit: `45 seconds`, `5 minutes`, `14 days`, `5 分钟`.
 * @param {number} seconds
 * @param {string} [locale]
 */
export function duration(seconds, locale) {
  /** @type {[string, number][]} */
  const units = [["day", 86_400], ["hour", 3_600], ["minute", 60]];
  const [unit, size] = units.find(([, size]) => seconds === size || seconds >= 2 * size) ?? ["second", 1];
  const text = new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "long", maximumFractionDigits: 1 }).format(seconds / size);
  // `Intl` has no space in `5分钟`.
  return text.replace(/(\d)(\p{Script=Han})/u, "$1 $2");
}
