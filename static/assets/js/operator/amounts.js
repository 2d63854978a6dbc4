// Amounts as operators write them: digits, and a point before the decimals of the currency.

/** Formats an amount in minor units: `1999, 2` → `19.99`. */
export const toText = (amount, decimals) => (amount / 10 ** decimals).toFixed(decimals);

/** What an amount looks like, for a field's `pattern`. */
export const amountPattern = (decimals) => (decimals ? `\\d+([.]\\d{1,${decimals}})?` : "\\d+");

/** The minor units of a text; NaN if it is no amount. */
export function toMinorUnits(text, decimals) {
  if (!new RegExp(`^${amountPattern(decimals)}$`).test(text.trim())) return NaN;
  const [whole, fraction = ""] = text.trim().split(".");
  return Number(whole + fraction.padEnd(decimals, "0"));
}
