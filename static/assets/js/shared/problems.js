// What a refusal means for the person in front of the page.

import { hasText, t } from "./i18n.js";
import { Problem, Unreachable } from "./api.js";

/** A sentence for any error that a request can end with. */
export function explain(error) {
  if (error instanceof Unreachable) return t("problem.unreachable");
  if (!(error instanceof Problem)) return t("problem.internal");
  const key = `problem.${error.code}`;
  return hasText(key) ? t(key) : error.detail || t("problem.internal");
}

/** Whether the same request can succeed a little later. */
export const isTransient = (error) =>
  error instanceof Unreachable || (error instanceof Problem && (error.status === 429 || error.status >= 500));
