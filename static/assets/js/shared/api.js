// All requests to the server. The only module that calls `fetch`.

/** An error response: `code` is stable, `detail` is text for people, `retryAfter` is in milliseconds or null. */
export class Problem extends Error {
  constructor({ status, code, detail, errors = [], retryAfter = null }) {
    super(detail || code);
    Object.assign(this, { status, code, detail, errors, retryAfter });
  }
}

/** No response arrived. The server may or may not have processed the request. */
export class Unreachable extends Error {}

// Codes for responses without a problem document, which a proxy in front of the app may send.
const CODE_BY_STATUS = {
  401: "unauthenticated", 403: "forbidden", 404: "not_found", 405: "method_not_allowed",
  413: "payload_too_large", 429: "rate_limited", 503: "overloaded",
};

/**
 * Sends one request. Resolves to `{status, data, etag, retryAfter, sentAt, receivedAt}`: the two times are
 * `performance.now()`, `retryAfter` is in milliseconds or null. Throws `Problem`, `Unreachable`, or the reason of an
 * aborted `signal`. `timeout` is in milliseconds.
 */
async function call(method, path, { body, token, etag, version, signal, timeout = 10_000 } = {}) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (token) headers.authorization = `Bearer ${token}`;
  if (etag) headers["if-none-match"] = etag;
  if (version !== undefined) headers["if-match"] = `"${version}"`;
  if (signal?.aborted) throw signal.reason;
  // `AbortSignal.any` and `AbortSignal.timeout` came with Chrome 116 and Safari 17.4.
  const controller = new AbortController();
  const abort = () => controller.abort();
  const timer = setTimeout(abort, timeout);
  signal?.addEventListener("abort", abort);
  const sentAt = performance.now();
  let response;
  let text;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: controller.signal,
      redirect: "error",
      credentials: "omit",
    });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw new Unreachable(String(error?.message ?? error));
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
  const receivedAt = performance.now();
  const data = parseJson(text);
  const retryAfter = parseRetryAfter(response.headers.get("retry-after"));
  if (!response.ok && response.status !== 304) {
    throw new Problem({
      status: response.status,
      code: data?.code ?? CODE_BY_STATUS[response.status] ?? "internal",
      detail: data?.detail ?? "",
      errors: data?.errors ?? [],
      retryAfter,
    });
  }
  return {
    status: response.status, data, etag: response.headers.get("etag"), retryAfter, sentAt, receivedAt,
  };
}

function parseJson(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

/** Parses `Retry-After` (seconds or a date) to milliseconds. */
function parseRetryAfter(header) {
  if (!header) return null;
  const wait = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(wait) ? Math.max(0, wait) : null;
}

const encode = encodeURIComponent;
const activityPath = (activity) => `/api/activities/${encode(activity)}`;
const orderPath = (orderNo) => `/api/orders/${encode(orderNo)}`;

export const activities = () => call("GET", "/api/activities");
export const activity = (id, options) => call("GET", activityPath(id), options);
export const gate = (id, options) => call("GET", `${activityPath(id)}/gate.json`, { timeout: 5_000, ...options });
export const challenge = (id, token, body = {}) =>
  call("POST", `${activityPath(id)}/challenge`, { token, body });
export const ticket = (id, token, proof = {}) => call("POST", `${activityPath(id)}/ticket`, { token, body: proof });
export const placeOrder = (id, body, signal) =>
  call("POST", `${activityPath(id)}/orders`, { body, signal, timeout: 8_000 });

export const orders = (token, { before, limit = 20 } = {}) =>
  call("GET", `/api/orders?${new URLSearchParams({ ...(before && { before }), limit })}`, { token });
export const orderStatus = (orderNo, token, { etag, signal } = {}) =>
  call("GET", orderPath(orderNo), { token, etag, signal });
// The server asks the payment provider up to three times, for 8 s each.
export const checkout = (orderNo, token, address) =>
  call("POST", `${orderPath(orderNo)}/checkout`, {
    token, body: { address, language: document.documentElement.lang }, timeout: 30_000,
  });
export const cancel = (orderNo, token) => call("POST", `${orderPath(orderNo)}/cancel`, { token, body: {} });
export const refund = (orderNo, token) => call("POST", `${orderPath(orderNo)}/refund`, { token, body: {} });

export const signIn = (user) => call("POST", "/sandbox/sign-in", { body: { user } });

/** Sends a request to a route below `/api/admin`. With `version`, only if the activity still has that version. */
export const admin = (method, path, token, body, version) =>
  call(method, `/api/admin${path}`, { token, body, version, timeout: 20_000 });
