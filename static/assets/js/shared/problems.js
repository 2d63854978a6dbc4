// Texts and classification of errors for the pages of buyers.

import { hasText, t } from "./i18n.js";
import { Problem, Unreachable } from "./api.js";

/** The text to show for an error of a request. */
export function explain(error) {
  if (error instanceof Unreachable) return t("problem.unreachable");
  if (!(error instanceof Problem)) return t("problem.internal");
  const key = `problem.${error.code}`;
  return hasText(key) ? t(key) : error.detail || t("problem.internal");
}

/** As `explain`, for requests about orders, which have no ticket to keep. */
export const explainOrder = (error) => (error instanceof Unreachable ? t("problem.no_answer") : explain(error));

/** Whether the same request may succeed later: no response, a 429, or a 5xx. */
export const isTransient = (error) =>
  error instanceof Unreachable || (error instanceof Problem && (error.status === 429 || error.status >= 500));
