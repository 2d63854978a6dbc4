// Makes an order again that the shop has lost (G16): what a failover of Redis loses is known to its buyer alone.

import { client } from "../shared/client.js";
import { isTransient } from "../shared/problems.js";
import * as session from "../shared/session.js";
import { tab } from "../shared/storage.js";

const keyOf = (orderNo) => `stampede.queued.${orderNo}`;

/** Keeps in this tab what an order is for, while it may be lost: until the ledger has it. */
export function keep({ order_no: orderNo, status, sku, quantity, amount }) {
  if (status === "queued" || status === "waiting") tab.setItem(keyOf(orderNo), JSON.stringify({ sku, quantity, amount }));
  else tab.removeItem(keyOf(orderNo));
}

/**
 * Sends the ticket of an order that neither store has again: one ticket makes one order. Resolves to the outcome of `buy`,
 * or null if this tab has not seen the order.
 */
export async function sendAgain(activity, orderNo, onStep) {
  const kept = JSON.parse(tab.getItem(keyOf(orderNo)) ?? "null");
  const ticket = session.orderTicket(orderNo);
  if (!kept || !ticket) return null;
  const obtainTicket = async () => ({ ticket, order_no: orderNo, unanswered: true });
  const outcome = await client.buy(activity, { ...kept, obtainTicket, dropTicket() {}, onStep });
  if (outcome.kind !== "refused") return outcome;
  // The sale may still be closed: its page tries again.
  if (isTransient(outcome.error)) return { kind: "unknown" };
  tab.removeItem(keyOf(orderNo));
  return outcome;
}
