// The frame of every buyer's page: language switch, signed-in user and sign-in dialog.

import * as api from "./api.js";
import { byId, el, setText, setVisible } from "./dom.js";
import { language, setLanguage, t, translate } from "./i18n.js";
import { explain } from "./problems.js";
import * as session from "./session.js";

const watchers = new Set();

/** Calls `watcher` after every sign-in and sign-out. */
export const onSessionChange = (watcher) => watchers.add(watcher);

/** Renders the frame and handles its buttons. Call once per page. */
export function start() {
  document.documentElement.dataset.started = "";
  translate();
  const otherLanguage = language === "zh" ? "en" : "zh";
  const switchButton = byId("language");
  setText(switchButton, otherLanguage === "zh" ? "中文" : "English");
  switchButton.lang = otherLanguage === "zh" ? "zh-CN" : "en";
  switchButton.addEventListener("click", () => setLanguage(otherLanguage));
  byId("sign-in").addEventListener("click", () => void signIn());
  byId("sign-out").addEventListener("click", () => {
    session.clear();
    renderAndNotify();
  });
  render();
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

/** Removes a token that the server refused, and opens the sign-in dialog. */
export function signInAgain() {
  session.clear();
  renderAndNotify();
  return signIn();
}

let openSignIn = null;

/** Resolves to the token, or to null if the visitor closed the dialog. Concurrent callers share one dialog. */
export function signIn() {
  if (session.token()) return Promise.resolve(session.token());
  return (openSignIn ??= openDialog().finally(() => (openSignIn = null)));
}

function openDialog() {
  return new Promise((resolve) => {
    const name = el("input", {
      id: "sign-in-name", name: "user", autocomplete: "username", required: true, maxlength: 64,
      autocapitalize: "none", spellcheck: "false", testid: "sign-in-user",
    });
    const errorLine = el("p", { class: "trouble", role: "alert" });
    const submit = el("button", { class: "button primary", testid: "sign-in-send" }, t("sign_in.send"));
    const form = el(
      "form",
      { method: "dialog" },
      el("h2", {}, t("sign_in.title")),
      el("p", { class: "quiet" }, t("sign_in.why")),
      el("label", { for: "sign-in-name" }, t("sign_in.name")),
      name,
      errorLine,
      el(
        "div",
        { class: "actions" },
        el("button", { type: "button", class: "button", onclick: () => dialog.close() }, t("close")),
        submit,
      ),
    );
    const dialog = el("dialog", { class: "dialog", "aria-label": t("sign_in.title") }, form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.disabled = true;
      setText(errorLine, "");
      try {
        const { data } = await api.signIn(name.value.trim());
        session.storeToken(data.token);
        renderAndNotify();
        dialog.close();
      } catch (error) {
        setText(errorLine, error.code === "not_found" ? t("sign_in.elsewhere") : explain(error));
        submit.disabled = false;
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
