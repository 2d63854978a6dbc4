// The signed-in user of this browser, and the tickets of this tab.
//
// The token is the shop's JWT: all tabs share it, so one sign-in serves them all. Tickets belong to the tab and to the
// user who got them.

import { device, tab } from "./storage.js";

const TOKEN = "stampede.token";
/** The key of the token that renews the token, where the issuer gives one. */
export const REFRESH_TOKEN = "stampede.refresh";
/** Written when the user signs out, for the other tabs. */
const SIGNED_OUT = "stampede.signed_out";
/** When to renew the token, by this device's clock. */
const RENEW_AT = "stampede.renew_at";
/** The user whose tickets are in this tab. */
const OWNER = "stampede.user";
/** Present from a sign-out until the next sign-in. */
const HAS_LEFT = "stampede.has_left";
/** The last sign-out before the tab noted its owner. */
const OWNER_SIGNED_OUT = "stampede.user_signed_out";

/** The stored token, also an expired one, or null. */
export const storedToken = () => device.getItem(TOKEN);

/** The token, or null if there is none or its `exp` claim is long past. */
export function token() {
  const stored = storedToken();
  return stored && !isLongExpired(parseClaims(stored).exp) ? stored : null;
}

/** The `sub` claim of the token, or null. */
export const user = () => (token() ? (parseClaims(token()).sub ?? null) : null);

/** Stores the token of a user who signed in, or a new one of the same user. Removes everything of another user. */
export function storeToken(newToken) {
  const { iat, exp } = parseClaims(newToken);
  device.setItem(TOKEN, newToken);
  forgetSignOut();
  adoptUser();
  // The browser's clock may be wrong, so the token's own times tell how long it lives. Tabs and devices that signed in
  // together renew at different times.
  const lifetime = (exp - (iat ?? Date.now() / 1000)) * 1000;
  const renewAt = Date.now() + lifetime * (0.6 + 0.2 * Math.random());
  if (Number.isFinite(renewAt)) device.setItem(RENEW_AT, String(renewAt));
  else device.removeItem(RENEW_AT);
}

/** Milliseconds until the token is to be renewed; Infinity without a token or an end. */
export function millisecondsUntilRenewal() {
  const renewAt = device.getItem(RENEW_AT);
  return storedToken() && renewAt ? Number(renewAt) - Date.now() : Infinity;
}

/** Removes a token that the server refused. The tickets of all tabs stay for the same user. */
export function removeToken() {
  device.removeItem(TOKEN);
  device.removeItem(RENEW_AT);
  known = null;
}

/** Signs out: removes the token and all tickets, in every tab. */
export function clear() {
  removeToken();
  device.removeItem(REFRESH_TOKEN);
  clearTab();
  device.setItem(HAS_LEFT, "");
  device.setItem(SIGNED_OUT, String(Date.now()));
}

/** Whether the last user of this device has signed out: the next one may be another. */
export const hasSignedOut = () => device.getItem(HAS_LEFT) !== null;

/** Forgets that the last user has signed out. */
export const forgetSignOut = () => device.removeItem(HAS_LEFT);

/** The user as this tab last knew. */
let known = null;

/** The user whose tickets are in this tab, or null. Stays while the server refuses the token, until another user signs in. */
export const owner = () => tab.getItem(OWNER);

/** Calls `onUserChange` when another tab has signed in another user, or signed out. */
export function watchOtherTabs(onUserChange) {
  adoptUser();
  const follow = (isCleared) => {
    const previous = [known, owner()];
    if (isCleared) clearTab();
    adoptUser();
    if (known !== previous[0] || owner() !== previous[1]) onUserChange();
  };
  globalThis.addEventListener("storage", ({ key }) => {
    if ([TOKEN, SIGNED_OUT, null].includes(key)) follow(key !== TOKEN);
  });
  // A page in the back/forward cache gets no events.
  globalThis.addEventListener("pageshow", ({ persisted }) => persisted && follow(false));
}

/**
 * Notes who is signed in. Removes the tickets of another user, and those from before a sign-out: a tab that showed a page
 * of another origin, or was closed, got no event of it.
 */
function adoptUser() {
  known = user();
  const signedOut = device.getItem(SIGNED_OUT) ?? "";
  const isSame = known === null || owner() === String(known);
  if (owner() !== null && !(isSame && (tab.getItem(OWNER_SIGNED_OUT) ?? "") === signedOut)) clearTab();
  if (known === null) return;
  tab.setItem(OWNER, String(known));
  tab.setItem(OWNER_SIGNED_OUT, signedOut);
}

function clearTab() {
  for (let index = tab.length - 1; index >= 0; index -= 1) {
    // Neither a sign-in that is under way, nor an operator's token.
    const isKept = tab.key(index) === "stampede.sign-in" || tab.key(index).startsWith("stampede.admin");
    if (tab.key(index).startsWith("stampede.") && !isKept) tab.removeItem(tab.key(index));
  }
}

const ticketKey = (activity) => `stampede.ticket.${activity}`;
const orderKey = (order) => `stampede.order.${order}`;

/** The ticket for an activity: `{ticket, order_no, expires_at, unanswered}` or null. It is unused, as far as is known. */
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

/** The ticket that made an order in this tab, or null. */
export const orderTicket = (order) => tab.getItem(orderKey(order));

/** The credential to read an order: the ticket that made it, which the server checks more cheaply, else the token. */
export const orderCredential = (order) => orderTicket(order) ?? token();

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
