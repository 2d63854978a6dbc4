// Formats the figures of a sale. Unknown ones, which are null, are `–`.

import { count } from "../../shared/format.js";

/** Formats a number of units or orders; Infinity is `∞`. */
export const formatUnits = (units) => (units === null ? "–" : count(units));

/** Formats a rate: below ten with one decimal digit. */
export const formatRate = (rate) =>
  rate === null ? "–" : count(rate < 10 ? Math.round(rate * 10) / 10 : Math.round(rate));
