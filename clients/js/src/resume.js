// Goes on with an attempt after the page was loaded again.

import { findOrder, kindOf } from "./attempt.js";
import { codeOf } from "./errors.js";
import { keepTicket } from "./ticket.js";

/**
 * @typedef {Omit<import("./attempt.js").BuyOptions, "sku" | "quantity" | "amount"> & Partial<import("./ticket.js").Tickets>
 *   & Pick<import("./ticket.js").TicketOptions, "storage">} ResumeOptions
 */

/**
 * Finds the attempt that this user's `keepTicket` kept: resolves to the order that it made, while that is not over, or else
 * goes on as `buy`; to null if none was running.
 * @param {import("./index.js").Client} client
 * @param {string} activity
 * @param {ResumeOptions} options With what `keepTicket` returned, or the `storage` that it was given.
 * @returns {Promise<import("./attempt.js").Outcome | null>}
 */
export async function resume(client, activity, { storage = globalThis.sessionStorage, ...options }) {
  const { check, solveCheck, signal } = options;
  const tickets = { ...keepTicket(client, activity, { storage, check, solveCheck, signal }), ...options };
  const ticket = tickets.kept();
  if (!ticket?.wanted) return null;
  if (ticket.isUsed) {
    const order = await findOrder(client, ticket, { until: client.now(), signal }).catch((error) => {
      if (codeOf(error) !== "unauthenticated" && codeOf(error) !== "ticket_invalid") throw error;
      return undefined;
    });
    if (order && ["waiting", "queued", "pending_payment"].includes(order.status)) return { kind: kindOf(order), order, ticket };
    if (order !== null) {
      tickets.saveTicket({ ...ticket, wanted: undefined });
      return null;
    }
    // A failure of the shop has lost it: the same ticket makes it again.
    tickets.saveTicket({ ...ticket, isUsed: false, unanswered: true });
  }
  return client.buy(activity, { ...ticket.wanted, ...tickets });
}
