// A client whose server is a script: for pages while they are developed, for tests and for pictures.

import { createClient } from "./index.js";

/**
 * @typedef {import("./index.js").Schemas} Schemas
 * @typedef {import("./index.js").Activity} Activity
 * @typedef {keyof typeof SCRIPTS} Script
 */

/** What differs from a purchase that succeeds at once; `ahead` counts down with each look at the order, in the line if it `waits`. */
const SCRIPTS = {
  paid: {},
  sold_out: { refusal: /** @type {const} */ ("sold_out") },
  queue: { ahead: 3 },
  declined: { isDeclined: true },
  waitlist: { ahead: 2, waits: true },
};

const MINUTE = 60_000;

/** @param {number} time */
const rfc3339 = (time) => new Date(time).toISOString();

/**
 * Makes a client that needs no server. A payment succeeds, or is declined, as soon as `checkout` has opened it.
 * @param {Script} [script]
 * @param {Partial<Activity>} [changes] Members of the activity.
 */
export const createMockClient = (script = "paid", changes = {}) =>
  createClient({ baseUrl: "https://mock.invalid", token: () => "mock", fetch: mockFetch(script, changes) });

/**
 * A `fetch` that answers by the script.
 * @param {Script} [script]
 * @param {Partial<Activity>} [changes]
 * @returns {typeof fetch}
 */
export function mockFetch(script = "paid", changes = {}) {
  /** @type {{ refusal?: import("./index.js").Code, ahead?: number, isDeclined?: boolean, waits?: boolean }} */
  const { refusal, isDeclined, waits, ...queue } = SCRIPTS[script];
  let { ahead = 0 } = queue;
  const start = Date.now();
  /** @type {import("./index.js").Order | null} */
  let order = null;
  const times = () => ({ server_time: rfc3339(Date.now()), starts_at: rfc3339(start - MINUTE), ends_at: rfc3339(start + 60 * MINUTE) });
  /** @returns {Activity} */
  const activity = () => ({
    id: "demo", title: "Camera", description: "", image: "", phase: "open", version: 1, human_check: "none", checkout: "form", per_user: 2,
    pay_timeout_seconds: 300, pay_extension_seconds: 300, refund_window_seconds: 0, max_wait_seconds: 300,
    eligibility: { members_only: false, min_level: 0, invited_only: false, codes: false },
    skus: [{
      sku: "camera", name: "Camera", image: "", price: 189_900, currency: "EUR", total: 10, left: waits ? 0 : 3, as_of: rfc3339(Date.now()),
      ...(waits && { waiting: 2 }),
    }],
    ...(waits && { line: { mode: /** @type {const} */ ("waitlist"), offer_seconds: 300 } }), ...times(), ...changes,
  });
  const look = () => {
    if (order?.status === "queued" || order?.status === "waiting") {
      order = ahead > 0
        ? { ...order, ahead: (ahead -= 1) }
        : { ...order, status: "pending_payment", pay_by: rfc3339(Date.now() + 5 * MINUTE) };
    }
    return order;
  };
  /** @type {Record<string, (body: Schemas["Reservation"] & Schemas["Cancel"]) => unknown>} */
  const routes = {
    "GET activities": () => {
      const { skus: [{ price, currency }], ...listed } = activity();
      return { items: [{ ...listed, price, currency, sold_out: false }], next: null };
    },
    "GET gate.json": () => ({ phase: "open", start_key: "mock", sold_out: [], version: 1, jitter_ms: 0, ...times() }),
    "POST ticket": () => ({ ticket: "1.mock", order_no: `${activity().id}.1`, expires_at: rfc3339(start + 60 * MINUTE) }),
    "POST orders": ({ sku, quantity = 1 }) => {
      if (refusal) return { status: 409, code: refusal };
      const { price, currency } = activity().skus.find((known) => known.sku === sku) ?? activity().skus[0];
      order = {
        order_no: `${activity().id}.1`, activity: activity().id, status: waits ? "waiting" : "queued", sku, quantity, amount: price * quantity, currency, ahead,
        estimated_wait_ms: 0, created_at: rfc3339(Date.now()),
      };
      return order;
    },
    "GET orders": () => ({ items: order ? [look()] : [], next: null }),
    "POST checkout": () => {
      if (!order) return null;
      order = { ...order, ...(isDeclined ? { declined_at: rfc3339(Date.now()) } : { status: "paid", paid_at: rfc3339(Date.now()) }) };
      return { checkout_url: `/order?order_no=${order.order_no}`, pay_by: rfc3339(Date.now() + 5 * MINUTE) };
    },
    "POST cancel": ({ status }) => {
      if (order && status && status !== order.status) return { status: 409, code: "state_conflict" };
      const reason = order?.status === "waiting" ? "left_line" : "cancelled_by_buyer";
      return order && (order = { ...order, status: "cancelled", reason });
    },
    "POST refund": () => order && (order = { ...order, status: "refunded" }),
  };
  return async (url, { method = "GET", body } = {}) => {
    const { pathname } = new URL(String(url));
    const name = pathname.split("/").at(-1) ?? "";
    const route = routes[`${method} ${name}`] ?? (/^\/api\/orders\//.test(pathname) ? look : activity);
    const answer = /** @type {{ code?: string, status?: number } | null} */ (route(body ? JSON.parse(String(body)) : {}));
    const status = answer === null ? 404 : answer.code ? Number(answer.status) : 200;
    return new Response(JSON.stringify(answer ?? { code: "not_found" }), { status, headers: { "retry-after": "1" } });
  };
}
