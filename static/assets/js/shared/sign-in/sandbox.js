// Sign-in of the sandbox, for development: any name, no password. Where it is off, says that the shop signs in.

import { signIn } from "../client.js";
import { el, setText } from "../dom.js";
import { t } from "../i18n.js";
import { explain } from "../problems.js";
import * as session from "../session.js";

/** The way to sign in with these settings. */
export function sandbox({ kind }) {
  const signIn = kind === "sandbox" ? openDialog : sayElsewhere;
  return { opensDialog: kind === "sandbox", canSignOut: true, signIn };
}

/** Shows a dialog. Resolves to the token when it is closed, or to null. */
function show(label, ...children) {
  const dialog = el("dialog", { class: "dialog", "aria-label": label }, ...children);
  const closed = new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(session.token());
    });
  });
  document.body.append(dialog);
  dialog.showModal();
  return { dialog, closed };
}

const closeButton = () =>
  el("button", { type: "button", class: "button", onclick: ({ target }) => target.closest("dialog").close() }, t("close"));

function sayElsewhere() {
  const text = el("p", {}, t("sign_in.elsewhere"));
  return show(t("sign_in.title"), el("h2", {}, t("sign_in.title")), text, el("div", { class: "actions" }, closeButton())).closed;
}

function openDialog() {
  const name = el("input", {
    id: "sign-in-name", name: "user", autocomplete: "username", required: true, maxlength: 64,
    autocapitalize: "none", spellcheck: "false", testid: "sign-in-user",
  });
  const errorLine = el("p", { class: "trouble", role: "alert" });
  const submit = el("button", { class: "button primary", testid: "sign-in-send" }, t("sign_in.send"));
  const form = el(
    "form",
    { method: "dialog" },
    el("h2", {}, t("sign_in.sandbox")),
    el("p", { class: "sandbox", testid: "sandbox" }, t("sign_in.sandbox_why")),
    el("p", { class: "field" }, el("label", { for: "sign-in-name" }, t("sign_in.name")), name),
    errorLine,
    el("div", { class: "actions" }, closeButton(), submit),
  );
  const { dialog, closed } = show(t("sign_in.sandbox"), form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    setText(errorLine, "");
    try {
      const data = await signIn(name.value.trim());
      session.storeToken(data.token);
      dialog.close();
    } catch (error) {
      setText(errorLine, explain(error));
      submit.disabled = false;
    }
  });
  name.focus();
  return closed;
}
