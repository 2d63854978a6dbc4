// How visitors sign in: as the shop has configured it. Renews tokens before they end.

import * as session from "./session.js";
import { getJson } from "./sign-in/requests.js";
import { device } from "./storage.js";

/** Milliseconds after the last time until a page that is opened or shown asks the shop again who is signed in. */
const SESSION_CHECK_MS = 60_000;

/** Milliseconds after a question without an answer until the next one; doubled after each. A shop may have a million pages. */
const RETRY_MS = { first: 30_000, last: 600_000 };

/** How often a page looks whether the token is to be renewed. */
const LOOK_INTERVAL_MS = 5_000;

/** When a page last asked the shop, by this device's clock. */
const CHECKED_AT = "stampede.checked_at";

let loading = null;

/**
 * Resolves to the way to sign in. Rejects if the settings cannot be loaded; the next call tries again.
 *
 * A way has `signIn()`, which resolves to the token or null, or leaves the page; `opensDialog`, whether it stays on the
 * page; and `canSignOut`. Some have `renew()`, which resolves to a new token, to null if the visitor is signed out, or
 * to undefined if there is no way to renew; and `hasSession`, whether another page may sign visitors in and out.
 */
export function loadWay() {
  loading ??= choose().catch((error) => {
    loading = null;
    throw error;
  });
  return loading;
}

let loadingSettings = null;

/** Resolves to what the variables say to the pages: `sign_in`, and `links`. */
export function loadSettings() {
  const load = async () => {
    const { status, data } = await getJson("/settings.json", { credentials: "omit" });
    if (status !== 200) throw new Error("no settings");
    return data;
  };
  loadingSettings ??= load().catch((error) => {
    loadingSettings = null;
    throw error;
  });
  return loadingSettings;
}

async function choose() {
  const { sign_in: settings } = await loadSettings();
  if (settings.kind === "shop") return (await import("./sign-in/shop.js")).shopSession(settings);
  if (settings.kind === "oidc") return (await import("./sign-in/oidc.js")).openIdConnect(settings);
  return (await import("./sign-in/sandbox.js")).sandbox(settings);
}

/** Renews the token; one tab at a time, because a refresh token may be used only once. Resolves as `way.renew` does. */
export function renew(way) {
  const before = session.storedToken();
  const run = async () => {
    if (session.storedToken() !== before) return session.token();
    const token = await way.renew();
    // Meanwhile the visitor has signed out, or another one has signed in.
    if (session.storedToken() !== before) return session.token();
    if (token) session.storeToken(token);
    else if (token === null) session.clear();
    return token;
  };
  return navigator.locks ? navigator.locks.request("stampede.renew", run) : run();
}

/**
 * Renews the token before it ends, and follows the shop's session. Calls `onUserChange` when another user, or none, is
 * signed in. A hidden page rests, unless `isAwaited()`. Resolves after the first look at the session.
 */
export async function keepSignedIn(way, onUserChange, isAwaited) {
  if (!way.renew) return;
  let isBusy = false;
  let [askedAt, pausedUntil] = [-Infinity, -Infinity];
  let retryMs = RETRY_MS.first;
  // From another site, such as the shop, where another user may have signed in. A link on our pages names them.
  const isArrival = performance.getEntriesByType("navigation")[0]?.type === "navigate";
  if (isArrival && !document.referrer.startsWith(`${location.origin}/`)) device.removeItem(CHECKED_AT);
  /** When this page was last opened or shown. */
  let shownAt = Date.now();

  async function look() {
    // The clock may have been set back.
    shownAt = Math.min(shownAt, Date.now());
    const isDue = session.millisecondsUntilRenewal() <= 0 || (way.hasSession && !wasChecked(shownAt));
    if (!isDue || isBusy || (document.hidden && !isAwaited()) || performance.now() < pausedUntil) return;
    isBusy = true;
    askedAt = performance.now();
    const previous = [session.user(), session.owner()];
    try {
      const token = await renew(way);
      device.setItem(CHECKED_AT, String(Date.now()));
      retryMs = RETRY_MS.first;
      if (!token && !way.hasSession) pausedUntil = performance.now() + 600_000;
    } catch {
      // No answer: the token may still be good.
      pausedUntil = performance.now() + retryMs * (0.7 + 0.6 * Math.random());
      retryMs = Math.min(2 * retryMs, RETRY_MS.last);
    }
    isBusy = false;
    if (session.user() !== previous[0] || session.owner() !== previous[1]) onUserChange();
  }

  document.addEventListener("visibilitychange", () => {
    shownAt = Date.now();
    // Another user may have signed in at the shop meanwhile: soon, also if it has failed for long.
    if (way.hasSession) pausedUntil = Math.min(pausedUntil, askedAt + RETRY_MS.first);
    void look();
  });
  setInterval(() => void look(), LOOK_INTERVAL_MS);
  await look();
}

/** Whether a page has asked the shop since this time, or within a minute and found a user. */
function wasChecked(since) {
  const checkedAt = Number(device.getItem(CHECKED_AT));
  const isRecent = session.token() !== null && Date.now() - checkedAt < SESSION_CHECK_MS;
  return checkedAt <= Date.now() && (checkedAt >= since || isRecent);
}
