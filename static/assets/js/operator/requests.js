// The operator's token, and the requests that carry it.

import * as api from "../shared/api.js";
import { byId, setText, setVisible } from "../shared/dom.js";

const TOKEN = "stampede.admin";

/** The admin token of this tab, or null. */
export const token = () => sessionStorage.getItem(TOKEN);

/** Keeps the token until the tab is closed. */
export const storeToken = (newToken) => sessionStorage.setItem(TOKEN, newToken);

/** Forgets it. */
export const forgetToken = () => sessionStorage.removeItem(TOKEN);

/** Sends a request to `/api/admin` + `path`; resolves to its data. With `version`, only that of a sale is changed. */
export async function send(method, path, body, version) {
  try {
    return (await api.admin(method, path, token(), body, version)).data;
  } catch (error) {
    if (error.code === "unauthenticated") {
      forgetToken();
      document.dispatchEvent(new Event("operator:signed-out"));
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
export function showNotice(text, tone = "good") {
  byId("notice").dataset.tone = tone;
  setText(byId("notice-text"), text);
  setVisible(byId("notice"), Boolean(text));
  clearTimeout(showNotice.timer);
  if (tone === "good") showNotice.timer = setTimeout(() => setVisible(byId("notice"), false), 4_000);
}

/** Runs what a button asks for and says how it went. */
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

/** The path of one sale. */
export const activityPath = (id, rest = "") => `/activities/${encodeURIComponent(id)}${rest}`;
