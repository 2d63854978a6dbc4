// Who is signed in, and the tickets that this tab holds.
//
// The token is the shop's JWT. In development the sandbox hands it out; a shop's own sign-in page on
// the same origin stores it under the same name and sends the visitor back.

const TOKEN = "stampede.token";

/** The token, or null when nobody is signed in or it has expired by its own word. */
export function token() {
  const stored = sessionStorage.getItem(TOKEN);
  return stored && !isLongExpired(parseClaims(stored).exp) ? stored : null;
}

/** The signed-in user's name, or null. */
export const user = () => (token() ? (parseClaims(token()).sub ?? null) : null);

/** Remembers the token of somebody who signed in: nothing of whoever was here before stays. */
export function storeToken(token) {
  clear();
  sessionStorage.setItem(TOKEN, token);
}

/** Forgets token and tickets. */
export function clear() {
  for (const name of Object.keys(sessionStorage)) {
    if (name.startsWith("stampede.")) sessionStorage.removeItem(name);
  }
}

const ticketKey = (activity) => `stampede.ticket.${activity}`;
const orderKey = (order) => `stampede.order.${order}`;

/** The unused ticket for a sale: `{ticket, expires_at}` or null. */
export const storedTicket = (activity) => JSON.parse(sessionStorage.getItem(ticketKey(activity)) ?? "null");

/** Keeps an unused ticket. */
export const storeTicket = (activity, ticket) =>
  sessionStorage.setItem(ticketKey(activity), JSON.stringify(ticket));

/** Forgets an unused ticket. */
export const removeTicket = (activity) => sessionStorage.removeItem(ticketKey(activity));

/** The ticket made an order: from now on it opens that order's page. */
export function markTicketUsed(activity, order, ticket) {
  sessionStorage.setItem(orderKey(order), ticket);
  removeTicket(activity);
}

/** What opens an order: the ticket that made it, which is cheap to check, else the token. */
export const orderCredential = (order) => sessionStorage.getItem(orderKey(order)) ?? token();

function parseClaims(jwt) {
  try {
    const text = jwt.split(".")[1].replace(/-/g, "+").replace(/_/g, "/");
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(text), (c) => c.charCodeAt(0))));
  } catch {
    return {};
  }
}

// The browser's clock may be an hour off: only what is long past counts, the server decides the rest.
const isLongExpired = (seconds) => typeof seconds === "number" && seconds * 1000 + 2 * 3_600_000 < Date.now();
