// One attempt to buy: sends the order request with retries until the outcome is known.

import { Aborted, Problem, Unreachable, isTransient } from "./errors.js";
import { keepTicket } from "./ticket.js";
import { backoff, randomUpTo, sleep, sleepUntilOnline } from "./timing.js";

/**
 * @typedef {import("../types/api.js").components["schemas"]["Ticket"]} Ticket
 * @typedef {import("../types/api.js").components["schemas"]["Order"]} Order
 * @typedef {{ kind: "accepted", order: Order, ticket: Ticket }
 *   | { kind: "refused", error: unknown } | { kind: "unknown", ticket: Ticket }} Outcome
 */

/** Refusals that prove that the ticket made no order: the server first checks whether the ticket made one. */
const CODES_WITHOUT_ORDER = ["sold_out", "limit_reached"];

/** How often a page that lost its answer asks for the order, a second apart. */
const MAX_LOOKUPS = 3;

/** Tries before the attempt ends and the buyer has to click again. */
const MAX_TRIES = 30;

/**
 * @typedef {object} BuyOptions
 * @property {string} sku
 * @property {number} [quantity]
 * @property {ReturnType<typeof import("./gate.js").watchGate>} [gate] The result of `watchGate`;
 *   without it, the attempt watches the gate itself.
 * @property {() => Promise<Ticket>} [obtainTicket] Resolves to an unused ticket, the same one until it is dropped;
 *   without it, the attempt gets a ticket as soon as tickets are issued.
 * @property {() => void} [dropTicket] Called when the ticket is used, or refused.
 * @property {string} [check] Without `obtainTicket`: the activity's `human_check`, if it is known.
 * @property {import("./ticket.js").SolveCheck} [solveCheck] Without `obtainTicket`: solves the human check.
 * @property {(step: { step: "ticket" | "gate" | "sending" | "waiting", error?: unknown, until?: number }) => void} [onStep]
 *   Called with what the attempt is doing; `until` is when it tries again, by the client's `now`.
 * @property {AbortSignal} [signal]
 */

/**
 * Retries until the server has decided. Resolves to `{kind: "accepted", order, ticket}`, `{kind: "refused", error}`, or
 * `{kind: "unknown", ticket}`: an earlier try may have made an order that is not known yet, so the buyer has to look at
 * the list of orders.
 *
 * Once a try may have made an order, every later try sends the same ticket, and the server replays the order of a used
 * ticket. So one attempt makes one order, however many responses are lost.
 * @param {import("./index.js").Client} client
 * @param {string} activity
 * @param {BuyOptions} options
 * @returns {Promise<Outcome>}
 */
export async function buy(client, activity, options) {
  const ownGate = options.gate ? null : client.watchGate(activity);
  try {
    const { check, solveCheck, signal } = options;
    const ownTicket = keepTicket(client, activity, { check, solveCheck, signal });
    return await attempt(client, activity, { ...ownTicket, gate: ownGate, onStep: () => {}, quantity: 1, ...options });
  } finally {
    ownGate?.stop();
  }
}

async function attempt(client, activity, { sku, quantity, obtainTicket, dropTicket, gate, onStep, signal }) {
  let currentTicket = null;
  let outcomeUnknown = false;
  let refusedKey = null;
  const accept = (order) => {
    // The ticket is used: another attempt needs another one.
    dropTicket();
    return { kind: "accepted", order, ticket: currentTicket };
  };
  const lookUp = async () => {
    const order = await findOrder(client, currentTicket, signal);
    return order ? accept(order) : { kind: "unknown", ticket: currentTicket };
  };
  const endWith = (error) =>
    outcomeUnknown && !CODES_WITHOUT_ORDER.includes(error.code) ? lookUp() : { kind: "refused", error };
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    let startKey = null;
    try {
      onStep({ step: "ticket" });
      // A ticket that may have made an order is sent again, even if it is about to expire.
      if (!outcomeUnknown) currentTicket = await obtainTicket();
      startKey = await gate.startKey({ signal, refusedKey, onWait: (gate) => onStep(waitStep(gate)) });
      if (startKey === null) return endWith(new Problem({ status: 410, code: "ended" }));
      onStep({ step: "sending" });
      const body = { sku, quantity, ticket: currentTicket.ticket, start_key: startKey };
      return accept(await client.placeOrder(activity, body, { signal }));
    } catch (error) {
      if (signal?.aborted) throw new Aborted();
      // Unless the server clearly refused, it may have made the order before the response was lost.
      const wasSent = startKey !== null;
      outcomeUnknown ||= wasSent && !(error instanceof Problem && (error.status < 500 || isPausedOrShed(error.code)));
      if (error.code === "ticket_conflict" || (error.code === "ticket_invalid" && outcomeUnknown)) {
        dropTicket();
        return lookUp();
      } else if (error.code === "ticket_invalid" && tries < 2) {
        dropTicket();
      } else if ((error.code === "start_key_invalid" || error.code === "not_open") && tries < 5) {
        refusedKey = startKey;
        await sleep(200 + randomUpTo(400), signal);
      } else if (isTransient(error)) {
        const wait = Number.isFinite(error.retryAfter) ? error.retryAfter + randomUpTo(500) : backoff(tries);
        onStep({ step: "waiting", error, until: client.now() + wait });
        await (error instanceof Unreachable ? sleepUntilOnline : sleep)(wait, signal);
        if (error.code === "paused") await gate.refresh();
      } else {
        return endWith(error);
      }
    }
  }
  return endWith(new Problem({ status: 503, code: "overloaded" }));
}

/** The order that a ticket has made, or null if none is found. */
async function findOrder(client, { order_no: orderNo, ticket }, signal) {
  for (let tries = 0; tries < MAX_LOOKUPS; tries += 1) {
    if (tries) await sleep(1_000, signal);
    try {
      return await client.order(orderNo, { token: ticket, signal });
    } catch {
      if (signal?.aborted) throw new Aborted();
    }
  }
  return null;
}

/** The step to report while the gate has no start key: load is shed, the activity is paused, or it is not open yet. */
function waitStep(gate) {
  const code = { open: "overloaded", paused: "paused" }[gate?.phase];
  return code ? { step: "waiting", error: new Problem({ status: 503, code }) } : { step: "gate" };
}

// Not "not_ready": it also means that a store did not respond in time, and the store may have made the order.
const isPausedOrShed = (code) => ["paused", "overloaded"].includes(code);
