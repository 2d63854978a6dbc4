// Sends requests. The only module that calls `fetch`.

import { Aborted, Problem, Unreachable } from "./errors.js";

// Codes for responses without a problem document, which a proxy in front of the app may send.
/** @type {Record<number, import("./errors.js").Code>} */
const CODE_BY_STATUS = {
  401: "unauthenticated", 403: "forbidden", 404: "not_found", 405: "method_not_allowed",
  413: "payload_too_large", 429: "rate_limited", 503: "overloaded",
};

/**
 * @typedef {object} RequestOptions
 * @property {unknown} [body] Sent as JSON; a `Blob` as it is.
 * @property {string | null} [token] Sent as bearer.
 * @property {string | null} [etag] Sent as `If-None-Match`.
 * @property {number} [version] Sent as `If-Match`.
 * @property {Record<string, string>} [headers] Other headers.
 * @property {RequestCredentials} [credentials] Without cookies by default.
 * @property {AbortSignal} [signal]
 * @property {number} [timeout] In milliseconds.
 */

/** @typedef {<T = unknown>(method: string, path: string, options?: RequestOptions) => Promise<Answer<T>>} Call */

/**
 * A response: `sentAt` and `receivedAt` are by the client's `now`, `date` (or null) is when it was sent, in milliseconds
 * since 1970, `retryAfter` is in milliseconds or null, and `unread` has the activities that a list lacks.
 * @template T
 * @typedef {{ status: number, data: T, text: string, etag: string | null, date: number | null, retryAfter: number | null, unread: string[],
 *   sentAt: number, receivedAt: number }} Answer
 */

/**
 * Makes the function that sends one request. It throws `Problem`, `Unreachable` or `Aborted`.
 * @param {{ baseUrl: string, fetch: typeof fetch, now: () => number }} settings
 * @returns {Call}
 */
export function createCall({ baseUrl, fetch, now }) {
  return async function call(method, path, options = {}) {
    const { body, token, etag, version, credentials = "omit", signal, timeout = 10_000 } = options;
    /** @type {Record<string, string>} */
    const headers = { accept: "application/json", ...options.headers };
    const isFile = body instanceof Blob;
    if (body !== undefined) headers["content-type"] = isFile ? body.type : "application/json";
    if (token) headers.authorization = `Bearer ${token}`;
    if (etag) headers["if-none-match"] = etag;
    if (version !== undefined) headers["if-match"] = `"${version}"`;
    if (signal?.aborted) throw new Aborted();
    // `AbortSignal.any` and `AbortSignal.timeout` came with Chrome 116 and Safari 17.4.
    const controller = new AbortController();
    const abort = () => controller.abort();
    const timer = setTimeout(abort, timeout);
    signal?.addEventListener("abort", abort);
    const sentAt = now();
    let response;
    let text;
    try {
      response = await fetch(`${baseUrl}${path}`, {
        method,
        headers,
        body: isFile || body === undefined ? body : JSON.stringify(body),
        signal: controller.signal,
        redirect: "error",
        credentials,
      });
      text = await response.text();
    } catch (error) {
      if (signal?.aborted) throw new Aborted();
      throw new Unreachable(error instanceof Error ? error.message : String(error));
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
    const receivedAt = now();
    const data = parseJson(text);
    const date = parseDate(response.headers);
    const retryAfter = parseRetryAfter(response.headers.get("retry-after"), date);
    if (!response.ok && response.status !== 304) {
      throw new Problem({
        ...data,
        status: response.status,
        code: data?.code ?? CODE_BY_STATUS[response.status] ?? "internal",
        retryAfter,
        isAnswer: Boolean(data?.code),
      });
    }
    const { status } = response;
    const unread = response.headers.get("x-unread-activities")?.split(" ") ?? [];
    return { status, data, text, etag: response.headers.get("etag"), date, retryAfter, unread, sentAt, receivedAt };
  };
}

/** @param {string} text */
function parseJson(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

/** When the response was sent: a cache that keeps the origin's `Date` adds `Age`. @param {Headers} headers */
function parseDate(headers) {
  const sent = Date.parse(headers.get("date") ?? "") + 1_000 * Number(headers.get("age") ?? 0);
  return Number.isFinite(sent) ? sent : null;
}

/**
 * Parses `Retry-After` (seconds or a date) to milliseconds. The device's clock may be wrong: a date is compared with `Date`.
 * @param {string | null} header
 * @param {number | null} date
 */
function parseRetryAfter(header, date) {
  if (!header) return null;
  const wait = /^\d+$/.test(header) ? Number(header) * 1_000 : date === null ? NaN : Date.parse(header) - date;
  return Number.isFinite(wait) ? Math.max(0, wait) : null;
}
