// The frame of every buyer's page: language switch, signed-in user and sign-in.

import { byId, confirmDialog, el, setText, setVisible } from "./dom.js";
import { t } from "./i18n.js";
import { startLanguageSwitch } from "./language-switch.js";
import * as session from "./session.js";
import { keepSignedIn, loadSettings, loadWay, renew } from "./sign-in.js";

/** Milliseconds within which a token that was just renewed is not renewed again. */
const RENEWAL_PAUSE_MS = 30_000;

const watchers = new Set();

/** Calls `watcher` after every sign-in and sign-out. */
export const onSessionChange = (watcher) => watchers.add(watcher);

/** Renders the frame and handles its buttons. Call once per page. */
export function start() {
  document.documentElement.dataset.started = "";
  startLanguageSwitch();
  byId("sign-in").addEventListener("click", () => void signIn());
  byId("sign-out").addEventListener("click", signOut);
  session.watchOtherTabs(renderAndNotify);
  render();
  void loadSettings().then(({ links }) => showLinks(links), () => {});
  begun = begin();
}

function signOut() {
  session.clear();
  renderAndNotify();
}

/** Call on a click. Signs out, and asks another user to sign in. */
export function switchUser() {
  signOut();
  void signIn();
}

let isAwaited = () => false;

/** Keeps the sign-in alive on a hidden page, too, while `test()`: the visitor may have to act at any moment. */
export const keepSignedInWhile = (test) => (isAwaited = test);

/** Resolves when the page knows who is signed in, as far as it can be known. */
let begun = Promise.resolve();
/** The first look at who is signed in; null until the settings say where. */
let following = null;
let settingsRetry = { ms: 5_000, timer: 0 };

async function begin() {
  try {
    const way = await loadWay();
    setVisible(byId("sign-out"), way.canSignOut);
    following ??= keepSignedIn(way, renderAndNotify, () => isAwaited());
    await following;
  } catch {
    // No settings. A click tries again, and so does the page, ever more rarely.
    const { ms, timer } = settingsRetry;
    clearTimeout(timer);
    const retry = () => (begun = begin());
    settingsRetry = { ms: Math.min(2 * ms, 600_000), timer: setTimeout(retry, ms * (0.7 + 0.6 * Math.random())) };
  }
}

/**
 * Resolves when the page knows who is signed in: another user than its last one may have come from the shop. After five
 * seconds in any case, since a sale does not wait.
 */
export function whenUserIsKnown() {
  if (!following) begun = begin();
  return Promise.race([begun, new Promise((resolve) => setTimeout(resolve, 5_000))]);
}

/** Shows the shop's terms, privacy policy and imprint at the foot of the page. */
function showLinks(links) {
  const entries = Object.entries(links);
  if (!entries.length) return;
  document.body.append(el("footer", { class: "foot", testid: "links" }, entries.map(([name, href]) => el("a", { href }, t(`link.${name}`)))));
}

function render() {
  const name = session.user();
  setVisible(byId("sign-in"), name === null);
  setVisible(byId("signed-in"), name !== null);
  setText(byId("user"), name ?? "");
}

function renderAndNotify() {
  render();
  for (const watcher of watchers) watcher();
}

let renewedAt = -Infinity;

/**
 * Replaces a token that the server refused: unseen where that is possible, else the visitor is asked. Concurrent callers
 * share one attempt.
 */
export function signInAgain() {
  return (replacing ??= replaceToken().finally(() => (replacing = null)));
}

let replacing = null;

async function replaceToken() {
  const refused = session.storedToken();
  await begun;
  const way = await loadWay().catch(() => null);
  // The renewed token may be refused as well.
  if (session.storedToken() === refused && way?.renew && performance.now() - renewedAt > RENEWAL_PAUSE_MS) {
    renewedAt = performance.now();
    await renew(way).catch(() => null);
  }
  if (session.storedToken() === refused) session.removeToken();
  renderAndNotify();
  return askToSignIn();
}

/**
 * Resolves to the token; asks for sign-in where that is a dialog, and where it is not, resolves to null: a page is left
 * only on a click.
 */
export async function askToSignIn() {
  await begun;
  const way = await loadWay().catch(() => null);
  return session.token() ?? (way?.opensDialog ? signIn() : null);
}

let openSignIn = null;
// A sign-in that left the page never settles.
addEventListener("pageshow", ({ persisted }) => persisted && (openSignIn = null));

/**
 * Call on a click. Resolves to the token, or to null if the visitor closed the dialog; or leaves the page. Concurrent
 * callers share one sign-in.
 */
export function signIn() {
  return session.token() ? Promise.resolve(session.token()) : signInAnew();
}

/** As `signIn`, also for a visitor who is signed in: their token ends soon. */
export function signInAnew() {
  return (openSignIn ??= signInByWay().finally(() => (openSignIn = null)));
}

async function signInByWay() {
  try {
    const token = await (await loadWay()).signIn();
    if (token) renderAndNotify();
    return token;
  } catch (error) {
    const text = t(error.reason ? `sign_in.no_${error.reason}` : "problem.unreachable");
    return (await confirmDialog(text, t("again"), t("close"))) ? signInByWay() : null;
  }
}
