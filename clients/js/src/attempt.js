// One attempt to buy: sends the order request with retries until the outcome is known.

import { Aborted, Problem, Unreachable, codeOf, isTransient, retryAfterOf } from "./errors.js";
import { keepTicket } from "./ticket.js";
import { backoff, randomUpTo, sleep, sleepUntilOnline } from "./timing.js";

/**
 * @typedef {import("./ticket.js").Ticket} Ticket
 * @typedef {import("../types/api.js").components["schemas"]["Order"]} Order
 * @typedef {ReturnType<typeof import("./gate.js").watchGate>} Gate
 * @typedef {import("./errors.js").Code} Code
 * @typedef {{ step: "ticket" | "gate" | "sending" | "waiting" | "looking", error?: unknown, until?: number }} Step
 * @typedef {{ kind: "accepted" | "waiting", order: Order, ticket: Ticket }
 *   | { kind: "refused", error: unknown } | { kind: "unknown", ticket: Ticket }} Outcome
 */

/**
 * How long after a try without an answer its order may still be made: a server stops working on a reservation after 8 s.
 * In milliseconds.
 */
const LOOK_MS = 10_000;

/** How often the last look is tried. */
const MAX_LAST_LOOKS = 3;

/** Tries before the attempt ends and the buyer has to click again. */
const MAX_TRIES = 30;

/**
 * @typedef {object} BuyOptions
 * @property {string} sku
 * @property {number} [quantity]
 * @property {number} [amount] What the buyer was shown, price times quantity in minor units: another price is refused as
 *   `price_changed`.
 * @property {Gate} [gate] The result of `watchGate`;
 *   without it, the attempt watches the gate itself.
 * @property {() => Promise<Ticket>} [obtainTicket] Resolves to an unused ticket, the same one until it is dropped;
 *   without it, the attempt gets a ticket as soon as tickets are issued.
 * @property {(used?: Ticket) => void} [dropTicket] Called when the ticket is used, with it, or refused.
 * @property {(ticket: Ticket) => void} [saveTicket] Called when members of the ticket have changed: keep it, if
 *   `obtainTicket` does not resolve to the same object again.
 * @property {string} [check] Without `obtainTicket`: the activity's `human_check`, if it is known.
 * @property {import("./ticket.js").SolveCheck} [solveCheck] Without `obtainTicket`: solves the human check.
 * @property {(step: Step) => void} [onStep]
 *   Called with what the attempt is doing; `until` is when it tries again, by the client's `now`.
 * @property {AbortSignal} [signal]
 */

/**
 * Retries until the server has decided. Resolves to `{kind: "accepted", order, ticket}`, `{kind: "waiting", order, ticket}` in
 * the line of a sale that has one, `{kind: "refused", error}`, or `{kind: "unknown", ticket}`: an earlier try may have made an order that is not known yet, so the buyer has to look at
 * the list of orders.
 *
 * Once a try may have made an order, every later try sends the same ticket, and the server replays the order of a used
 * ticket. So one attempt makes one order, however many responses are lost. A refusal may then be wrong, since a server
 * refuses without looking for the order: the order is looked up first.
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
    return await attempt(client, activity, {
      ...ownTicket, onStep: () => {}, saveTicket: () => {}, ...options, gate: options.gate ?? /** @type {Gate} */ (ownGate),
    });
  } finally {
    ownGate?.stop();
  }
}

/**
 * @param {import("./index.js").Client} client
 * @param {string} activity
 * @param {BuyOptions & Required<Pick<BuyOptions, "gate" | "obtainTicket" | "dropTicket" | "saveTicket" | "onStep">>} options
 * @returns {Promise<Outcome>}
 */
async function attempt(client, activity, { sku, quantity = 1, amount, obtainTicket, dropTicket, saveTicket, gate, onStep, signal }) {
  /** @type {Ticket | undefined} */
  let ticket;
  // An earlier attempt may have sent the ticket until now.
  let unansweredAt = client.now();
  /** @type {string | null} */
  let refusedKey = null;
  /** @param {Ticket} ticket @param {boolean} unanswered */
  const mark = (ticket, unanswered) => {
    if (Boolean(ticket.unanswered) === unanswered) return;
    ticket.unanswered = unanswered;
    saveTicket(ticket);
  };
  /** @param {Ticket} ticket */
  const want = (ticket) => {
    const wanted = { sku, quantity, amount };
    if (JSON.stringify(ticket.wanted) === JSON.stringify(wanted)) return;
    ticket.wanted = wanted;
    saveTicket(ticket);
  };
  /** The attempt is over: its order will not be made. */
  const settle = () => {
    if (!ticket?.wanted || ticket.unanswered) return;
    delete ticket.wanted;
    saveTicket(ticket);
  };
  /** @param {Ticket} ticket @param {Order} order @returns {Outcome} */
  const accept = (ticket, order) => {
    // The ticket is used: another attempt needs another one.
    ticket.unanswered = false;
    dropTicket(ticket);
    return { kind: kindOf(order), order, ticket };
  };
  /** @param {Ticket} ticket @param {string} startKey */
  const send = async (ticket, startKey) => {
    const wasUnanswered = Boolean(ticket.unanswered);
    // Before it is sent: the page may be left at any moment.
    mark(ticket, true);
    try {
      return await client.placeOrder(activity, { sku, quantity, amount, ticket: ticket.ticket, start_key: startKey }, { signal });
    } catch (error) {
      // Unless the server clearly refused, it may have made the order before the response was lost.
      if (isRefusal(error)) mark(ticket, wasUnanswered);
      else unansweredAt = client.now();
      throw error;
    }
  };
  /** @param {unknown} error @returns {Promise<Outcome>} */
  const endWith = async (error) => {
    if (ticket?.unanswered) {
      onStep({ step: "looking" });
      try {
        const order = await findOrder(client, ticket, { until: unansweredAt + LOOK_MS, signal });
        if (order) return accept(ticket, order);
      } catch (lookupError) {
        if (lookupError instanceof Aborted) throw lookupError;
        if (isTicketRefused(codeOf(lookupError))) dropTicket();
        return { kind: "unknown", ticket };
      }
      mark(ticket, false);
    }
    settle();
    if (isTicketRefused(codeOf(error))) dropTicket();
    return { kind: "refused", error };
  };
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    let startKey = null;
    try {
      onStep({ step: "ticket" });
      // A ticket that may have made an order is sent again, even if it is about to expire.
      if (!ticket?.unanswered) {
        ticket = await obtainTicket();
        want(ticket);
      }
      startKey = await gate.startKey({ signal, refusedKey, onWait: (gate) => onStep(waitStep(gate)) });
      if (startKey === null) return endWith(new Problem({ status: 410, code: "ended" }));
      onStep({ step: "sending" });
      return accept(ticket, await send(ticket, startKey));
    } catch (error) {
      if (signal?.aborted) {
        settle();
        throw new Aborted();
      }
      const code = codeOf(error);
      // An earlier attempt has used the ticket.
      if (ticket && code === "ticket_conflict") mark(ticket, true);
      if (code === "ticket_invalid" && !ticket?.unanswered && tries < 2) {
        dropTicket();
      } else if ((code === "start_key_invalid" || code === "not_open") && tries < 5) {
        refusedKey = startKey;
        await sleep(200 + randomUpTo(400), signal);
      } else if (isTransient(error)) {
        const retryAfter = retryAfterOf(error);
        const wait = retryAfter === null ? backoff(tries) : retryAfter + randomUpTo(500);
        onStep({ step: "waiting", error, until: client.now() + wait });
        await (error instanceof Unreachable ? sleepUntilOnline : sleep)(wait, signal);
        if (code === "paused") await gate.refresh();
      } else {
        return endWith(error);
      }
    }
  }
  return endWith(new Problem({ status: 503, code: "overloaded" }));
}

/**
 * Looks for the order of a ticket whose answer is not known, until `until` by the client's `now`. Resolves to null if it
 * made none and will make none. Throws the error of the last look if that is not known.
 * @param {import("./index.js").Client} client
 * @param {Ticket} ticket
 * @param {{ until?: number, signal?: AbortSignal }} [options] By default, as if the last request was sent just now.
 * @returns {Promise<Order | null>}
 */
export async function findOrder(client, { order_no: orderNo, ticket }, { until = client.now() + LOOK_MS, signal } = {}) {
  let lastLooks = 0;
  for (let looks = 1; ; looks += 1) {
    const last = client.now() >= until;
    try {
      return await client.order(orderNo, { token: ticket, last, signal });
    } catch (error) {
      const isAnswer = error instanceof Problem && error.isAnswer;
      const isNone = isAnswer && error.code === "not_found";
      if (isNone && last) return null;
      lastLooks += last ? 1 : 0;
      if (!(isNone || (error instanceof Problem && !isAnswer) || isTransient(error)) || lastLooks >= MAX_LAST_LOOKS) throw error;
      const pause = backoff(Math.min(looks, 2));
      const untilLast = Math.max(0, until - client.now()) + randomUpTo(500);
      const wait = Math.max(retryAfterOf(error) ?? 0, last ? pause : Math.min(pause, untilLast));
      await (error instanceof Unreachable ? sleepUntilOnline : sleep)(wait, signal);
    }
  }
}

/** What became of an attempt that made this order. @param {Order} order */
export const kindOf = ({ status }) => /** @type {"accepted" | "waiting"} */ (status === "waiting" ? "waiting" : "accepted");

/**
 * The step to report while the gate has no start key: load is shed, the activity is paused, or it is not open yet.
 * @param {import("./gate.js").Gate | null} gate
 * @returns {Step}
 */
function waitStep(gate) {
  if (gate?.phase !== "open" && gate?.phase !== "paused") return { step: "gate" };
  return { step: "waiting", error: new Problem({ status: 503, code: gate.phase === "open" ? "overloaded" : "paused" }) };
}

// Not "not_ready": it also means that a store did not respond in time, and the store may have made the order.
const isRefusal = (/** @type {unknown} */ error) =>
  error instanceof Problem && error.isAnswer && (error.status < 500 || ["paused", "overloaded"].includes(error.code));

const isTicketRefused = (/** @type {Code | undefined} */ code) => code === "ticket_conflict" || code === "ticket_invalid";
