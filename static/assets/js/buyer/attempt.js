// One attempt to buy: sends the order request with retries until the outcome is known.

import * as api from "../shared/api.js";
import { backoff, randomUpTo, sleep } from "../shared/poll.js";
import { isTransient } from "../shared/problems.js";
import * as session from "../shared/session.js";

/** Refusals that prove that the ticket made no order: the server first checks whether the ticket made one. */
const CODES_WITHOUT_ORDER = ["sold_out", "limit_reached"];

/** How often a page that lost its answer asks for the order, a second apart. */
const MAX_LOOKUPS = 3;

/** Tries before the attempt ends and the visitor has to click again. */
const MAX_TRIES = 30;

/**
 * Retries until the server has decided. Resolves to `{kind: "accepted", order}`, `{kind: "refused", error}`, or
 * `{kind: "unknown"}`: an earlier try may have made an order that is not known yet, so the visitor has to look at the
 * list of orders.
 *
 * Once a try may have made an order, every later try sends the same ticket, and the server replays the order of a used
 * ticket. So one attempt makes one order, however many responses are lost.
 */
export async function buy({ activity, sku, quantity, obtainTicket, gate, report, signal }) {
  let currentTicket = null;
  let outcomeUnknown = false;
  let refusedKey = null;
  const accept = (order) => {
    session.markTicketUsed(activity, order.order_no, currentTicket.ticket);
    return { kind: "accepted", order };
  };
  const lookUp = async () => {
    const order = await findOrder(currentTicket, signal);
    return order ? accept(order) : { kind: "unknown" };
  };
  const endWith = (error) =>
    outcomeUnknown && !CODES_WITHOUT_ORDER.includes(error.code) ? lookUp() : { kind: "refused", error };
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    let startKey = null;
    try {
      report({ step: "ticket" });
      // A ticket that may have made an order is sent again, even if it is about to expire.
      if (!outcomeUnknown) currentTicket = await obtainTicket();
      startKey = await gate.startKey(signal, { refusedKey, onWait: (gate) => report(waitStep(gate)) });
      if (startKey === null) return endWith(new api.Problem({ status: 410, code: "ended" }));
      report({ step: "sending" });
      const { data } = await api.placeOrder(
        activity,
        { sku, quantity, ticket: currentTicket.ticket, start_key: startKey },
        signal,
      );
      return accept(data);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      // Unless the server clearly refused, it may have made the order before the response was lost.
      const wasSent = startKey !== null;
      outcomeUnknown ||=
        wasSent && !(error instanceof api.Problem && (error.status < 500 || isPausedOrShed(error.code)));
      if (error.code === "ticket_conflict" || (error.code === "ticket_invalid" && outcomeUnknown)) {
        session.removeTicket(activity);
        return lookUp();
      } else if (error.code === "ticket_invalid" && tries < 2) {
        session.removeTicket(activity);
      } else if ((error.code === "start_key_invalid" || error.code === "not_open") && tries < 5) {
        refusedKey = startKey;
        await sleep(200 + randomUpTo(400), signal);
      } else if (isTransient(error)) {
        const wait = Number.isFinite(error.retryAfter) ? error.retryAfter + randomUpTo(500) : backoff(tries);
        report({ step: "waiting", error, until: performance.now() + wait });
        await sleep(wait, signal);
        if (error.code === "paused") await gate.refresh();
      } else {
        return endWith(error);
      }
    }
  }
  return endWith(new api.Problem({ status: 503, code: "overloaded" }));
}

/** The order that a ticket has made, or null if none is found. */
async function findOrder({ order_no: orderNo, ticket }, signal) {
  for (let tries = 0; tries < MAX_LOOKUPS; tries += 1) {
    if (tries) await sleep(1_000, signal);
    try {
      return (await api.orderStatus(orderNo, ticket, { signal })).data;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
    }
  }
  return null;
}

/** The step to report while the gate has no start key: load is shed, the activity is paused, or it is not open yet. */
function waitStep(gate) {
  const code = { open: "overloaded", paused: "paused" }[gate?.phase];
  return code ? { step: "waiting", error: new api.Problem({ status: 503, code }) } : { step: "gate" };
}

// Not "not_ready": it also means that a store did not respond in time, and the store may have made the order.
const isPausedOrShed = (code) => ["paused", "overloaded"].includes(code);
