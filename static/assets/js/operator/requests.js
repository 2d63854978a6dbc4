// The operator's token, requests to the admin API, and the display of their results.

import { Unreachable, admin, adminRead, client, clock } from "../shared/client.js";
import { byId, setText, setVisible } from "../shared/dom.js";
import { count } from "../shared/format.js";
import { device, tab } from "../shared/storage.js";
import { removeDrafts } from "./drafts.js";
import { hasText, t } from "./words.js";

const TOKEN = "stampede.admin";
/** When an operator last left, by this device; and in a tab, the last time before its token was entered. */
const LEFT = "stampede.admin_left";
/** When the tab last sent the token. */
const USED_AT = "stampede.admin_used_at";
/** Milliseconds after which a tab that is loaded forgets its token: browsers restore tabs that were closed. */
const MAX_IDLE = 30 * 60_000;

/** The operator's token in this tab, or null. A preview has a copy, which is forgotten when the operator leaves the desk. */
export function token() {
  if ((tab.getItem(LEFT) ?? "") !== (device.getItem(LEFT) ?? "")) tab.removeItem(TOKEN);
  return tab.getItem(TOKEN);
}

/** Stores the token for this tab. */
export function storeToken(newToken) {
  tab.setItem(TOKEN, newToken);
  tab.setItem(LEFT, device.getItem(LEFT) ?? "");
  entry = entryOfTab();
}

/** Removes the token from this tab and the others, and what was typed into the editor. */
export function leave() {
  tab.removeItem(TOKEN);
  removeDrafts();
  try {
    device.setItem(LEFT, String(Date.now()));
  } catch {
    // A full storage: the other tabs keep theirs.
  }
}

/** Identifies the token of the tab, and when it was entered. */
const entryOfTab = () => `${token()} ${tab.getItem(LEFT)}`;

if (Date.now() - Number(tab.getItem(USED_AT)) > MAX_IDLE) tab.removeItem(TOKEN);
/** What `entryOfTab` was when this page was opened, or the operator entered. */
let entry = entryOfTab();

/** Dispatches `operator:signed-out` when the operator of this page has left, in this tab or another one. */
function follow() {
  if (entryOfTab() !== entry) document.dispatchEvent(new Event("operator:signed-out"));
}
globalThis.addEventListener("storage", ({ key }) => key === LEFT && follow());
// A page in the back/forward cache gets no events. A page of another operator is loaded anew, also with an open editor.
globalThis.addEventListener("pageshow", ({ persisted }) => persisted && entryOfTab() !== entry && location.reload());

/**
 * Sends a request to `/api/admin` + `path` and resolves to its data. With the option `version`, the server refuses if the
 * version of the activity differs. On a refused token, removes it and dispatches `operator:signed-out`.
 */
export const send = (method, path, body, options) => guard(admin(method, path, token(), body, options));

/**
 * Reads a document: resolves to the response with `data`, `etag` and `date`, or to null if the document is still that of
 * `etag`. A refused token is handled as by `send`.
 */
export async function read(path, etag) {
  const answer = await guard(adminRead(path, token(), etag));
  if (answer?.date) clock.observe(new Date(answer.date).toISOString(), answer);
  return answer;
}

/** Reads a file below `/api/admin`. */
export const readText = async (path) => (await guard(adminRead(path, token()))).text;

/** The checks of `/readyz`: of each store, `ok` or what is wrong with it. */
export async function readiness() {
  try {
    return (await client.call("GET", "/readyz", { token: token() })).data.checks;
  } catch (error) {
    if (error.checks) return error.checks;
    throw error;
  }
}

async function guard(request) {
  tab.setItem(USED_AT, String(Date.now()));
  try {
    return await request;
  } catch (error) {
    if (error.code === "unauthenticated") {
      tab.removeItem(TOKEN);
      document.dispatchEvent(new Event("operator:signed-out"));
    }
    throw error;
  }
}

/** The text to show for an error: ours for the codes that we know, else the server's, with its code. */
export function explain(error) {
  if (error instanceof Unreachable) return t("error.unreachable");
  if (hasText(`error.${error.code}`)) return t(`error.${error.code}`);
  return `${error.message}${error.code ? ` (${error.code})` : ""}`;
}

/** Shows a notice at the top of the page; an empty text hides it. A good one disappears after four seconds. */
export function showNotice(text, tone = "good") {
  byId("notice").dataset.tone = tone;
  setText(byId("notice-text"), text);
  setVisible(byId("notice"), Boolean(text));
  clearTimeout(showNotice.timer);
  if (tone === "good") showNotice.timer = setTimeout(() => setVisible(byId("notice"), false), 4_000);
}

/**
 * Runs the action of a button, which is disabled meanwhile. Shows `success` (a text, or a function of the result that
 * returns one) or the error. Resolves to the result, or to undefined after an error.
 */
export async function runAction(button, action, success) {
  button.disabled = true;
  try {
    const result = await action();
    if (success) showNotice(typeof success === "function" ? success(result) : success);
    return result;
  } catch (error) {
    showNotice(explain(error), "bad");
    return undefined;
  } finally {
    button.disabled = false;
  }
}

/** The path of an activity below `/api/admin`. */
export const activityPath = (id, rest = "") => `/activities/${encodeURIComponent(id)}${rest}`;

/**
 * Repeats the rebuild of an activity until it is done, and shows its progress. `answer` is that of the last call, which
 * says how far the rebuild is.
 */
export async function finishRebuild(id, answer) {
  while (answer.outcome === "running") {
    const { step, orders, total, epoch } = answer;
    showNotice(t("rebuild.running", { id, step: t(`rebuild.${step}`), orders: count(orders), total: count(total) }), "busy");
    answer = await send("POST", activityPath(id, `/rebuild?epoch=${epoch}`), {});
  }
  return answer;
}
