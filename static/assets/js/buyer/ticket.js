// Obtains a ticket and stores it until an order has used it.

import { client, clock } from "../shared/client.js";
import * as session from "../shared/session.js";
import { solveHumanCheck } from "./human-check.js";

/** A ticket that expires within this time is not used. In milliseconds. */
const MIN_REMAINING = 15_000;

/**
 * The ticket stored in this tab, or null if there is none or it is about to expire. One that may have made an order is
 * returned in any case: another one could make a second order.
 */
export function unusedTicket(activity) {
  const stored = session.storedTicket(activity);
  const isExpiring = () => clock.millisecondsUntil(stored.expires_at) < MIN_REMAINING;
  return stored && (stored.unanswered || !isExpiring()) ? stored : null;
}

/** Resolves to the stored ticket, or to a new one. `check` is the activity's human check, `code` a presale code. Concurrent callers share one request. */
export function ensureTicket(activity, check, code) {
  const stored = unusedTicket(activity);
  if (stored) return Promise.resolve(stored);
  const [token, user] = [session.token(), session.user()];
  if (pending?.user !== user || pending.code !== code) {
    const thisRequest = (pending = { user, code });
    thisRequest.ticket = fetchTicket(activity, token, check, code).finally(() => {
      if (pending === thisRequest) pending = null;
    });
  }
  return pending.ticket;
}

/** The request in progress: the user that it is for, the presale code, and the promise of the ticket. */
let pending = null;

async function fetchTicket(activity, token, check, code) {
  const user = session.user();
  const data = await client.ticketWithCheck(activity, { check, code, solveCheck: solveHumanCheck, token });
  // If the user has changed during the request, the ticket is not stored for the next user.
  if (session.user() === user) session.storeTicket(activity, data);
  return data;
}
