// Amounts of money.

/** The codes of the currencies that do not have two decimals, by ISO 4217. Browsers know others: none for HUF. */
const CODES_BY_DECIMALS = {
  0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
  3: "BHD IQD JOD KWD LYD OMR TND",
};

/**
 * The decimals of a currency by ISO 4217, which say what its minor unit is: 2 for `EUR`, 0 for `JPY`.
 * @param {string} currency
 */
export function currencyDecimals(currency) {
  const found = Object.entries(CODES_BY_DECIMALS).find(([, codes]) => codes.split(" ").includes(currency));
  return found ? Number(found[0]) : 2;
}

/**
 * Formats an amount in minor units: `1999, "EUR"` → `€19.99`.
 * @param {number} amount
 * @param {string} currency An ISO 4217 code; any other text is shown behind the number.
 * @param {string} [locale] A language tag; the default is the browser's.
 */
export function formatMoney(amount, currency, locale) {
  const digits = currencyDecimals(currency);
  const value = amount / 10 ** digits;
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  try {
    return new Intl.NumberFormat(locale, { style: "currency", currency, ...options }).format(value);
  } catch {
    return `${value.toFixed(digits)} ${currency}`;
  }
}
