// A client of a Stampede sale (G14): the calls of the buyers' routes, the server's clock, polling and retries.

import { buy, findOrder } from "./attempt.js";
import { createClock } from "./clock.js";
import { codeOf } from "./errors.js";
import { watchGate } from "./gate.js";
import { explain } from "./explain.js";
import { createCall } from "./http.js";
import { checkout, pollOrder, watchOrder } from "./orders.js";
import { resume } from "./resume.js";
import { keepTicket, ticketWithCheck } from "./ticket.js";

export { Aborted, Problem, Unreachable, isTransient } from "./errors.js";
export { bestLanguage } from "./language.js";
export { currencyDecimals, formatMoney } from "./money.js";
export { TICKETS_BEFORE_START } from "./ticket.js";
export { backoff, poll, randomUpTo, sleep } from "./timing.js";

/**
 * @typedef {import("../types/api.js").components["schemas"]} Schemas
 * @typedef {Schemas["Activity"]} Activity
 * @typedef {Schemas["ListedActivity"]} ListedActivity
 * @typedef {Schemas["GateDocument"]} Gate
 * @typedef {Schemas["Order"]} Order
 * @typedef {Schemas["OrderStatus"]} OrderStatus
 * @typedef {Schemas["Code"]} Code
 * @typedef {import("./attempt.js").Ticket} Ticket
 * @typedef {import("./attempt.js").Outcome} Outcome
 * @typedef {import("./attempt.js").Step} Step
 * @typedef {import("./ticket.js").Challenge} Challenge
 * @typedef {import("./ticket.js").CheckRequest} CheckRequest
 * @typedef {import("./ticket.js").SolveCheck} SolveCheck
 * @typedef {{ token?: string | null, signal?: AbortSignal }} CallOptions
 * @typedef {CallOptions & { last?: boolean }} LookOptions
 * @typedef {ReturnType<typeof createClient>} Client
 */

/** @template T @typedef {import("./http.js").Answer<T>} Answer */

const activityPath = (/** @type {string} */ activity) => `/api/activities/${encodeURIComponent(activity)}`;
const orderPath = (/** @type {string} */ orderNo) => `/api/orders/${encodeURIComponent(orderNo)}`;

/**
 * The document of a response.
 * @template T
 * @param {Promise<Answer<T>>} answer
 */
const documentOf = async (answer) => (await answer).data;

/**
 * Makes a client. Calls resolve to the response's document, and throw `Problem`, `Unreachable` or `Aborted`.
 * @param {object} [settings]
 * @param {string} [settings.baseUrl] The app's origin; the default is the page's own.
 * @param {() => string | null} [settings.token] The shop's JWT of the buyer. Calls with a `token` of their own send that.
 * @param {typeof fetch} [settings.fetch]
 * @param {() => number} [settings.now] Elapsed time in milliseconds; it must not follow changes of the device's clock.
 */
export function createClient({
  baseUrl = "",
  token: currentToken = () => null,
  fetch = (...request) => globalThis.fetch(...request),
  now = () => performance.now(),
} = {}) {
  const call = createCall({ baseUrl: baseUrl.replace(/\/$/, ""), fetch, now });
  const clock = createClock(now);
  /** @template {import("./http.js").RequestOptions} O @param {O} options */
  const withToken = (options) => ({ ...options, token: options.token ?? currentToken() });
  /**
   * @template [T=unknown]
   * @param {string} path @param {import("./http.js").RequestOptions} options @returns {Promise<Answer<T>>}
   */
  const post = (path, options) => call("POST", path, withToken(options));
  /** @template {{ server_time: string }} T @param {Promise<Answer<T>>} answer */
  const observed = async (answer) => {
    const response = await answer;
    clock.observe(response.data.server_time, response);
    return response.data;
  };

  const client = {
    /** The client's elapsed time. */
    now,
    /** The shop's JWT of the buyer, or null. */
    token: currentToken,
    /** The server's clock, which every response with a server time corrects. */
    clock,
    /** Sends any request, without the token, and resolves to the response. */
    call,
    post,

    /** The published activities. @returns {Promise<Schemas["ListedActivity"][]>} */
    activities: async () => {
      /** @type {Answer<Schemas["ListedActivityPage"]>} */
      const response = await call("GET", "/api/activities");
      const { items } = response.data;
      if (items.length) clock.observe(items[0].server_time, response);
      return items;
    },
    /** One activity. @param {string} activity @param {CallOptions} [options] @returns {Promise<Activity>} */
    activity: (activity, { signal } = {}) => observed(call("GET", activityPath(activity), { signal })),
    /** The gate. @param {string} activity @param {CallOptions} [options] @returns {Promise<Gate>} */
    gate: (activity, { signal } = {}) =>
      observed(call("GET", `${activityPath(activity)}/gate.json`, { signal, timeout: 5_000 })),

    /**
     * A human check, where `ticket` answers `human_check_required`.
     * @param {string} activity @param {Schemas["ChallengeOptions"]} [body] @param {CallOptions} [options] @returns {Promise<Challenge>}
     */
    challenge: (activity, body = {}, options = {}) =>
      documentOf(post(`${activityPath(activity)}/challenge`, { ...options, body })),
    /**
     * A ticket, from 30 minutes before the start. `proof` is the solution of a human check.
     * @param {string} activity @param {Schemas["Solution"]} [proof] @param {CallOptions} [options]
     * @returns {Promise<Schemas["Ticket"]>}
     */
    ticket: (activity, proof = {}, options = {}) =>
      documentOf(post(`${activityPath(activity)}/ticket`, { ...options, body: proof })),
    /**
     * One try to reserve: `buy` retries it.
     * @param {string} activity @param {Schemas["Reservation"]} body @param {CallOptions} [options]
     * @returns {Promise<Order>}
     */
    placeOrder: (activity, body, { signal } = {}) =>
      documentOf(call("POST", `${activityPath(activity)}/orders`, { body, signal, timeout: 8_000 })),

    /**
     * The response with a page of the buyer's orders, newest first, as `items`; `before` is the `next` of the page before.
     * `unread` has the activities whose queued orders could not be read.
     * @param {{ before?: string | null, limit?: number }} [page] @param {CallOptions} [options]
     * @returns {Promise<Answer<Schemas["OrderPage"]>>}
     */
    readOrders: ({ before, limit = 20 } = {}, options = {}) => {
      const query = new URLSearchParams({ ...(before && { before }), limit: String(limit) });
      return call("GET", `/api/orders?${query}`, withToken(options));
    },
    /**
     * The orders of a page, as above.
     * @param {{ before?: string | null, limit?: number }} [page] @param {CallOptions} [options]
     * @returns {Promise<Order[]>}
     */
    orders: async (page, options) => (await client.readOrders(page, options)).data.items,
    /**
     * The response about an order; its document is null in a `304`. `last` says that the caller will not look again: only then does a `404`
     * mean that no earlier request has made the order.
     * @param {string} orderNo @param {LookOptions & { etag?: string | null }} [options]
     * @returns {Promise<Answer<Order | null>>}
     */
    readOrder: (orderNo, { last = false, ...options } = {}) =>
      call("GET", `${orderPath(orderNo)}${last ? "?last=true" : ""}`, withToken(options)),
    /** An order; `last` as above. @param {string} orderNo @param {LookOptions} [options] @returns {Promise<Order>} */
    order: async (orderNo, options = {}) => /** @type {Order} */ ((await client.readOrder(orderNo, options)).data),
    /** @param {string} orderNo @param {CallOptions} [options] @returns {Promise<Order>} */
    cancel: (orderNo, options = {}) => documentOf(post(`${orderPath(orderNo)}/cancel`, { ...options, body: {} })),
    /**
     * Leaves the line. If a unit was offered meanwhile, resolves to the order, which stays.
     * @param {string} orderNo @param {CallOptions} [options] @returns {Promise<Order>}
     */
    leave: async (orderNo, options = {}) => {
      try {
        return await documentOf(post(`${orderPath(orderNo)}/cancel`, { ...options, body: { status: "waiting" } }));
      } catch (error) {
        if (codeOf(error) !== "state_conflict") throw error;
        return client.order(orderNo, options);
      }
    },
    /** @param {string} orderNo @param {CallOptions} [options] @returns {Promise<Order>} */
    refund: (orderNo, options = {}) => documentOf(post(`${orderPath(orderNo)}/refund`, { ...options, body: {} })),

    /** @param {string} activity @param {import("./gate.js").WatchOptions} [options] */
    watchGate: (activity, options = {}) => watchGate(client, activity, options),
    /** @param {string} activity @param {import("./ticket.js").TicketOptions} [options] */
    ticketWithCheck: (activity, options = {}) => ticketWithCheck(client, activity, options),
    /** @param {string} activity @param {import("./ticket.js").TicketOptions} [options] */
    keepTicket: (activity, options = {}) => keepTicket(client, activity, options),
    /** @param {string} activity @param {import("./attempt.js").BuyOptions} options */
    buy: (activity, options) => buy(client, activity, options),
    /** @param {string} activity @param {import("./resume.js").ResumeOptions} [options] */
    resume: (activity, options = {}) => resume(client, activity, options),
    /** @param {import("./attempt.js").Ticket} ticket @param {{ until?: number, signal?: AbortSignal }} [options] */
    findOrder: (ticket, options) => findOrder(client, ticket, options),
    /** @param {string} orderNo @param {import("./orders.js").PollOptions} [options] */
    pollOrder: (orderNo, options = {}) => pollOrder(client, orderNo, options),
    /** @param {string} orderNo @param {import("./orders.js").WatchOrderOptions} [options] */
    watchOrder: (orderNo, options = {}) => watchOrder(client, orderNo, options),
    /** @param {string} orderNo @param {import("./orders.js").CheckoutOptions} [options] */
    checkout: (orderNo, options = {}) => checkout(client, orderNo, options),
    explain,
  };
  return client;
}
