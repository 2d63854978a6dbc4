// The operator's token, and the requests that carry it.

import * as api from "../shared/api.js";
import { byId, say, show } from "../shared/dom.js";

const TOKEN = "stampede.admin";

/** The admin token of this tab, or null. */
export const token = () => sessionStorage.getItem(TOKEN);

/** Keeps the token until the tab is closed. */
export const keep = (next) => sessionStorage.setItem(TOKEN, next);

/** Forgets it. */
export const forget = () => sessionStorage.removeItem(TOKEN);

/** Sends a request to `/api/admin` + `path`; resolves to its data. With `version`, only that of a sale is changed. */
export async function send(method, path, body, version) {
  try {
    return (await api.admin(method, path, token(), body, version)).data;
  } catch (error) {
    if (error.code === "unauthenticated") {
      forget();
      document.dispatchEvent(new Event("desk:locked"));
    }
    throw error;
  }
}

/** What a person should know about an error: here the details help. */
export const explain = (error) =>
  error instanceof api.Unreachable
    ? "The server does not answer."
    : `${error.message}${error.code ? ` (${error.code})` : ""}`;

/** Says something at the top of the page. */
export function notice(text, tone = "good") {
  byId("notice").dataset.tone = tone;
  say(byId("notice-text"), text);
  show(byId("notice"), Boolean(text));
  clearTimeout(notice.timer);
  if (tone === "good") notice.timer = setTimeout(() => show(byId("notice"), false), 4_000);
}

/** Runs what a button asks for and says how it went. */
export async function doing(button, work, done) {
  button.disabled = true;
  try {
    const result = await work();
    if (done) notice(typeof done === "function" ? done(result) : done);
    return result;
  } catch (error) {
    notice(explain(error), "bad");
    return undefined;
  } finally {
    button.disabled = false;
  }
}

/** The path of one sale. */
export const sale = (id, rest = "") => `/activities/${encodeURIComponent(id)}${rest}`;
