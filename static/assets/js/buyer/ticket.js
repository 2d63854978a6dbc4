// Gets the ticket before the rush, and keeps it until an order has used it.

import * as api from "../shared/api.js";
import * as clock from "../shared/clock.js";
import * as session from "../shared/session.js";
import { prove } from "./human-check.js";

/** A ticket this close to its end is not used any more. */
const MARGIN = 15_000;

/** How long before the start tickets are to be had. */
export const EARLY = 30 * 60_000;

/** The unused ticket that this tab holds, if it still holds good. */
export function held(activity) {
  const kept = session.ticketFor(activity);
  return kept && !(clock.until(kept.expires_at) < MARGIN) ? kept : null;
}

/**
 * The held ticket, or a new one. `check` says which human check the sale asks for; `place` is where
 * a puzzle can be shown. One request at a time: callers share it.
 */
export function ensure(activity, { check, place, onCheck }) {
  const kept = held(activity);
  if (kept) return Promise.resolve(kept);
  const token = session.token();
  if (pending?.token !== token) {
    const mine = (pending = { token });
    mine.ticket = fetchTicket(activity, token, { check, place, onCheck }).finally(() => {
      if (pending === mine) pending = null;
    });
  }
  return pending.ticket;
}

/** The request under way, and whose it is. */
let pending = null;

async function fetchTicket(activity, token, { check, place, onCheck }) {
  let mustProve = check === "pow" || check === "captcha";
  for (let tries = 0; ; tries += 1) {
    try {
      const proof = mustProve ? await prove(activity, token, { place, onCheck }) : {};
      const { data } = await api.ticket(activity, token, proof);
      // It may come when its user has gone: nobody buys with somebody else's.
      if (session.token() === token) session.keepTicket(activity, data);
      return data;
    } catch (error) {
      // A sale may ask only of some; and a solution can come too late.
      const again = error.code === "human_check_required" || error.code === "human_check_failed";
      if (!again || tries >= 3) throw error;
      mustProve = true;
    }
  }
}
