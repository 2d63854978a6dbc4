// What a request can fail with.

/** @typedef {import("../types/api.js").components["schemas"]["Code"]} Code */

/** A refusal by the server: decide by `code`; `detail` is text for people, `retryAfter` is in milliseconds or null. */
export class Problem extends Error {
  /**
   * @param {{ status: number, code: Code, detail?: string, errors?: { detail: string, pointer?: string }[],
   *   retryAfter?: number | null, isAnswer?: boolean, requires?: string | null, left?: number | null,
   *   amount?: number | null, currency?: string | null, order_no?: string | null, checks?: Record<string, string> | null }} fields
   */
  constructor({
    status, code, detail = "", errors = [], retryAfter = null, isAnswer = true, requires = null, left = null, amount = null,
    currency = null, order_no: orderNo = null, checks = null,
  }) {
    super(detail || code);
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.errors = errors;
    this.retryAfter = retryAfter;
    /** Of `not_eligible`, the rule that refused: `members`, `level`, `list`, `groups` or `code`. */
    this.requires = requires;
    /** Of `insufficient_stock`, the units left. */
    this.left = left;
    /** Of `price_changed`, the price of all units in minor units of `currency`. */
    this.amount = amount;
    this.currency = currency;
    /** Of `limit_reached`, the order with which the buyer waits already; of other refusals, the one that an earlier try may have made. */
    this.orderNo = orderNo;
    /** Of `not_ready` by `/readyz`, what is wrong with each store. */
    this.checks = checks;
    /** Whether the response had a code of its own. Without one a proxy sent it: the app may have processed the request. */
    this.isAnswer = isAnswer;
  }
}

/** No response arrived. The server may or may not have processed the request. */
export class Unreachable extends Error {}

/** The caller's signal was aborted. `AbortSignal.reason` came with Chrome 98, so this is thrown in its place. */
export class Aborted extends Error {
  constructor() {
    super("The caller's signal was aborted.");
    this.name = "AbortError";
  }
}

/**
 * The code of a refusal; undefined for any other error.
 * @param {unknown} error
 */
export const codeOf = (error) => (error instanceof Problem ? error.code : undefined);

/**
 * The milliseconds after which the server wants the request again, or null.
 * @param {unknown} error
 */
export const retryAfterOf = (error) => (error instanceof Problem ? error.retryAfter : null);

/**
 * Whether the same request may succeed later: no response, a 429, or a 5xx.
 * @param {unknown} error
 */
export const isTransient = (error) =>
  error instanceof Unreachable || (error instanceof Problem && (error.status === 429 || error.status >= 500));
