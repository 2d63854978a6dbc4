// One attempt to buy: from the click to an order, or to a reason why not.

import * as api from "../shared/api.js";
import { backoff, randomUpTo, sleep } from "../shared/poll.js";
import { isTransient } from "../shared/problems.js";
import * as session from "../shared/session.js";

/** Refusals that say that the ticket has made no order: the server looks for one before it says these. */
const CODES_WITHOUT_ORDER = ["sold_out", "limit_reached"];

/** Beyond this the visitor decides whether to go on. */
const MAX_TRIES = 30;

/**
 * Tries until the server has decided. Resolves to
 * `{kind: "accepted", order}`, `{kind: "refused", error}`, or `{kind: "unknown"}`: an earlier try may
 * have gone through, so the visitor's own orders tell.
 *
 * Every try carries the same ticket, which the server replays: however often an answer gets lost,
 * one attempt makes one order.
 */
export async function buy({ activity, sku, quantity, obtainTicket, gate, report, signal }) {
  let currentTicket = null;
  let outcomeUnknown = false;
  let refusedKey = null;
  const endWith = (error) =>
    outcomeUnknown && !CODES_WITHOUT_ORDER.includes(error.code) ? { kind: "unknown" } : { kind: "refused", error };
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    let startKey = null;
    try {
      report({ step: "ticket" });
      // What may have made an order is sent again, however little time it has left.
      if (!outcomeUnknown) currentTicket = await obtainTicket();
      startKey = await gate.startKey(signal, { refusedKey, onWait: (gate) => report(waitStep(gate)) });
      if (startKey === null) return endWith(new api.Problem({ status: 410, code: "ended" }));
      report({ step: "sending" });
      const { data } = await api.placeOrder(
        activity,
        { sku, quantity, ticket: currentTicket.ticket, start_key: startKey },
        signal,
      );
      session.markTicketUsed(activity, data.order_no, currentTicket.ticket);
      return { kind: "accepted", order: data };
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      // Anything but a clear refusal may have been decided before the answer got lost.
      const wasSent = startKey !== null;
      outcomeUnknown ||=
        wasSent && !(error instanceof api.Problem && (error.status < 500 || isPausedOrShed(error.code)));
      if (error.code === "ticket_conflict" || (error.code === "ticket_invalid" && outcomeUnknown)) {
        session.removeTicket(activity);
        if (outcomeUnknown || error.code === "ticket_conflict") return { kind: "unknown" };
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

/** What a gate without a key means: too many people, a pause, or a moment too early. */
function waitStep(gate) {
  const code = { open: "overloaded", paused: "paused" }[gate?.phase];
  return code ? { step: "waiting", error: new api.Problem({ status: 503, code }) } : { step: "gate" };
}

// "not_ready" is none of these: a store may have done what it was asked, and not said so in time.
const isPausedOrShed = (code) => ["paused", "overloaded"].includes(code);
