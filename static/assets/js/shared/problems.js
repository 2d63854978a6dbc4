// Texts and classification of errors for the pages of buyers.

import { money } from "./format.js";
import { hasText, t } from "./i18n.js";
import { Problem, Unreachable } from "./client.js";

export { isTransient } from "./client.js";

/** The text to show for an error of a request. */
export function explain(error) {
  if (error instanceof Unreachable) return t(navigator.onLine ? "problem.unreachable" : "problem.offline");
  if (!(error instanceof Problem)) return t("problem.internal");
  const key = `problem.${error.code}`;
  const { left, amount, currency } = error;
  const values = { left, amount: amount === null ? "" : money(amount, currency) };
  return hasText(key) ? t(key, values) : error.detail || t("problem.internal");
}

/** As `explain`, for requests about orders, which have no ticket to keep. */
export const explainOrder = (error) => (error instanceof Unreachable && navigator.onLine ? t("problem.no_answer") : explain(error));
