// What every buyer's page has: the language switch, who is signed in, and the sign-in dialog.

import * as api from "./api.js";
import { byId, el, say, show } from "./dom.js";
import { choose, language, t, translate } from "./i18n.js";
import { explain } from "./problems.js";
import * as session from "./session.js";

const watchers = new Set();

/** Calls `watcher` whenever somebody signs in or out. */
export const onSession = (watcher) => watchers.add(watcher);

/** Fills the frame of the page. */
export function start() {
  translate();
  const other = language === "zh" ? "en" : "zh";
  const switcher = byId("language");
  say(switcher, other === "zh" ? "中文" : "English");
  switcher.lang = other === "zh" ? "zh-CN" : "en";
  switcher.addEventListener("click", () => choose(other));
  byId("sign-in").addEventListener("click", () => void signIn());
  byId("sign-out").addEventListener("click", () => {
    session.signedOut();
    changed();
  });
  render();
}

function render() {
  const name = session.user();
  show(byId("sign-in"), name === null);
  show(byId("signed-in"), name !== null);
  say(byId("user"), name ?? "");
}

function changed() {
  render();
  for (const watcher of watchers) watcher();
}

/** Forgets a token that the server does not take any more. */
export function signInAgain() {
  session.signedOut();
  changed();
  return signIn();
}

let asking = null;

/** Resolves to the token, or to null when the visitor closed the dialog. There is one dialog, whoever asks for it. */
export function signIn() {
  if (session.token()) return Promise.resolve(session.token());
  return (asking ??= openDialog().finally(() => (asking = null)));
}

function openDialog() {
  return new Promise((resolve) => {
    const name = el("input", {
      id: "sign-in-name", name: "user", autocomplete: "username", required: true, maxlength: 64,
      autocapitalize: "none", spellcheck: "false", testid: "sign-in-user",
    });
    const trouble = el("p", { class: "trouble", role: "alert" });
    const send = el("button", { class: "button primary", testid: "sign-in-send" }, t("sign_in.send"));
    const form = el(
      "form",
      { method: "dialog" },
      el("h2", {}, t("sign_in.title")),
      el("p", { class: "quiet" }, t("sign_in.why")),
      el("label", { for: "sign-in-name" }, t("sign_in.name")),
      name,
      trouble,
      el(
        "div",
        { class: "actions" },
        el("button", { type: "button", class: "button", onclick: () => dialog.close() }, t("close")),
        send,
      ),
    );
    const dialog = el("dialog", { class: "dialog", "aria-label": t("sign_in.title") }, form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      send.disabled = true;
      say(trouble, "");
      try {
        const { data } = await api.signIn(name.value.trim());
        session.signedIn(data.token);
        changed();
        dialog.close();
      } catch (error) {
        say(trouble, error.code === "not_found" ? t("sign_in.elsewhere") : explain(error));
        send.disabled = false;
      }
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(session.token());
    });
    document.body.append(dialog);
    dialog.showModal();
    name.focus();
  });
}
