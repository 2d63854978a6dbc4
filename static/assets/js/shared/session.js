// The signed-in user and the tickets of this tab.
//
// The token is the shop's JWT. In development the sandbox issues it. In production the shop's own sign-in page, on the
// same origin, stores it under the same name and redirects back.

import { tab } from "./storage.js";

const TOKEN = "stampede.token";

/** The token, or null if there is none or its `exp` claim is long past. */
export function token() {
  const stored = tab.getItem(TOKEN);
  return stored && !isLongExpired(parseClaims(stored).exp) ? stored : null;
}

/** The `sub` claim of the token, or null. */
export const user = () => (token() ? (parseClaims(token()).sub ?? null) : null);

/** Stores the token of a user who signed in. Removes everything of the previous user first. */
export function storeToken(token) {
  clear();
  tab.setItem(TOKEN, token);
}

/** Removes the token and all tickets. */
export function clear() {
  for (let index = tab.length - 1; index >= 0; index -= 1) {
    if (tab.key(index).startsWith("stampede.")) tab.removeItem(tab.key(index));
  }
}

const ticketKey = (activity) => `stampede.ticket.${activity}`;
const orderKey = (order) => `stampede.order.${order}`;

/** The unused ticket for an activity: `{ticket, expires_at}` or null. */
export const storedTicket = (activity) => JSON.parse(tab.getItem(ticketKey(activity)) ?? "null");

/** Stores an unused ticket. */
export const storeTicket = (activity, ticket) =>
  tab.setItem(ticketKey(activity), JSON.stringify(ticket));

/** Removes an unused ticket. */
export const removeTicket = (activity) => tab.removeItem(ticketKey(activity));

/** Records that the ticket made an order: from now on it is the credential of that order's page. */
export function markTicketUsed(activity, order, ticket) {
  tab.setItem(orderKey(order), ticket);
  removeTicket(activity);
}

/** The orders that this tab's tickets have made, newest first. */
export const ordersOfTickets = () =>
  Array.from({ length: tab.length }, (_, index) => tab.key(index))
    .filter((key) => key.startsWith(orderKey("")))
    .map((key) => key.slice(orderKey("").length))
    .sort((a, b) => (a.split(".").at(-1) < b.split(".").at(-1) ? 1 : -1));

/** The credential to read an order: the ticket that made it, which the server checks more cheaply, else the token. */
export const orderCredential = (order) => tab.getItem(orderKey(order)) ?? token();

function parseClaims(jwt) {
  try {
    const text = jwt.split(".")[1].replace(/-/g, "+").replace(/_/g, "/");
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(text), (c) => c.charCodeAt(0))));
  } catch {
    return {};
  }
}

// Two hours of tolerance, because the browser's clock may be wrong by an hour. The server decides about the rest.
const isLongExpired = (seconds) => typeof seconds === "number" && seconds * 1000 + 2 * 3_600_000 < Date.now();
