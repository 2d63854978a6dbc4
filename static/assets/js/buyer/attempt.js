// One attempt to buy: from the click to an order, or to a reason why not.

import * as api from "../shared/api.js";
import { backOff, pause, upTo } from "../shared/poll.js";
import { passes } from "../shared/problems.js";
import * as session from "../shared/session.js";

/** Refusals that say that the ticket has made no order: the server looks for one before it says these. */
const SAYS_NO_ORDER = ["sold_out", "limit_reached"];

/** Beyond this the visitor decides whether to go on. */
const MOST_TRIES = 30;

/**
 * Tries until the server has decided. Resolves to
 * `{kind: "accepted", order}`, `{kind: "refused", error}`, or `{kind: "look"}`: an earlier try may
 * have gone through, so the visitor's own orders tell.
 *
 * Every try carries the same ticket, which the server replays: however often an answer gets lost,
 * one attempt makes one order.
 */
export async function buy({ activity, sku, quantity, ticket, gate, report, signal }) {
  let used = null;
  let unknown = false;
  let staleKey = null;
  const end = (error) =>
    unknown && !SAYS_NO_ORDER.includes(error.code) ? { kind: "look" } : { kind: "refused", error };
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    let key = null;
    try {
      report({ step: "ticket" });
      // What may have made an order is sent again, however little time it has left.
      if (!unknown) used = await ticket();
      key = await gate.key(signal, { stale: staleKey, onWait: (gate) => report(waitingFor(gate)) });
      if (key === null) return end(new api.Problem({ status: 410, code: "ended" }));
      report({ step: "sending" });
      const { data } = await api.placeOrder(
        activity,
        { sku, quantity, ticket: used.ticket, start_key: key },
        signal,
      );
      session.spendTicket(activity, data.order_no, used.ticket);
      return { kind: "accepted", order: data };
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      // Anything but a clear refusal may have been decided before the answer got lost.
      const sent = key !== null;
      unknown ||= sent && !(error instanceof api.Problem && (error.status < 500 || isBusy(error.code)));
      if (error.code === "ticket_conflict" || (error.code === "ticket_invalid" && unknown)) {
        session.dropTicket(activity);
        if (unknown || error.code === "ticket_conflict") return { kind: "look" };
      } else if (error.code === "ticket_invalid" && tries < 2) {
        session.dropTicket(activity);
      } else if ((error.code === "start_key_invalid" || error.code === "not_open") && tries < 5) {
        staleKey = key;
        await pause(200 + upTo(400), signal);
      } else if (passes(error)) {
        const wait = Number.isFinite(error.retryAfter) ? error.retryAfter + upTo(500) : backOff(tries);
        report({ step: "waiting", error, until: performance.now() + wait });
        await pause(wait, signal);
        if (error.code === "paused") await gate.look();
      } else {
        return end(error);
      }
    }
  }
  return end(new api.Problem({ status: 503, code: "overloaded" }));
}

/** What a gate without a key means: too many people, a pause, or a moment too early. */
function waitingFor(gate) {
  const code = { open: "overloaded", paused: "paused" }[gate?.phase];
  return code ? { step: "waiting", error: new api.Problem({ status: 503, code }) } : { step: "gate" };
}

// "not_ready" is none of these: a store may have done what it was asked, and not said so in time.
const isBusy = (code) => ["paused", "overloaded"].includes(code);
