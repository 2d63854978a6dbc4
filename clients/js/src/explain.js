// Says to buyers what a refusal or a failure means.

import { Problem, Unreachable } from "./errors.js";
import { bestLanguage } from "./language.js";
import { formatMoney } from "./money.js";
import { texts as en } from "./texts/en.js";
import { texts as zh } from "./texts/zh.js";

/** @type {Record<string, Record<string, string>>} */
const TEXTS = { en, zh };

/**
 * The text for a code, or for an error of a call, which may have values such as the units left.
 * @param {unknown} problem
 * @param {string} [language] A language tag; English is the default, and for languages without texts.
 * @param {Record<string, string>} [texts] Texts in place of the client's, by `problem.<code>`.
 */
export function explain(problem, language = "en", texts = TEXTS[bestLanguage(language, ["en", "zh"]) ?? "en"]) {
  const { code = codeFor(problem), detail, left, amount, currency, orderNo } = /** @type {Partial<Problem>} */ (problem instanceof Problem ? problem : {});
  const text = (orderNo && texts[`problem.${code}.waits`]) || (texts[`problem.${code}`] ?? (detail || texts["problem.internal"]));
  /** @type {Record<string, unknown>} */
  const values = { left, amount: amount == null || !currency ? null : formatMoney(amount, currency, language) };
  return text.replace(/\{(\w+)\}/g, (placeholder, name) => String(values[name] ?? placeholder));
}

/** @param {unknown} error */
function codeFor(error) {
  if (typeof error === "string") return error;
  if (!(error instanceof Unreachable)) return "internal";
  return globalThis.navigator?.onLine === false ? "offline" : "unreachable";
}
