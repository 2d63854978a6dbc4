// Gets the ticket before the rush, and keeps it until an order has used it.

import * as api from "../shared/api.js";
import * as clock from "../shared/clock.js";
import * as session from "../shared/session.js";
import { solveHumanCheck } from "./human-check.js";

/** A ticket this close to its end is not used any more. */
const MIN_REMAINING = 15_000;

/** How long before the start tickets are to be had. */
export const TICKETS_BEFORE_START = 30 * 60_000;

/** The unused ticket that this tab holds, if it still holds good. */
export function unusedTicket(activity) {
  const stored = session.storedTicket(activity);
  return stored && !(clock.millisecondsUntil(stored.expires_at) < MIN_REMAINING) ? stored : null;
}

/**
 * The held ticket, or a new one. `check` says which human check the sale asks for; `place` is where
 * a puzzle can be shown. One request at a time: callers share it.
 */
export function ensureTicket(activity, { check, container, onStatus }) {
  const stored = unusedTicket(activity);
  if (stored) return Promise.resolve(stored);
  const token = session.token();
  if (pending?.token !== token) {
    const thisRequest = (pending = { token });
    thisRequest.ticket = fetchTicket(activity, token, { check, container, onStatus }).finally(() => {
      if (pending === thisRequest) pending = null;
    });
  }
  return pending.ticket;
}

/** The request under way, and whose it is. */
let pending = null;

async function fetchTicket(activity, token, { check, container, onStatus }) {
  let needsProof = check === "pow" || check === "captcha";
  for (let tries = 0; ; tries += 1) {
    try {
      const proof = needsProof ? await solveHumanCheck(activity, token, { container, onStatus }) : {};
      const { data } = await api.ticket(activity, token, proof);
      // It may come when its user has gone: nobody buys with somebody else's.
      if (session.token() === token) session.storeTicket(activity, data);
      return data;
    } catch (error) {
      // A sale may ask only of some; and a solution can come too late.
      const canRetry = error.code === "human_check_required" || error.code === "human_check_failed";
      if (!canRetry || tries >= 3) throw error;
      needsProof = true;
    }
  }
}
