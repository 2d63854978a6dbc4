// Dialogs that ask before an action: what follows, and what the action needs.

import { el, setText } from "../shared/dom.js";
import { t } from "./words.js";

/**
 * Asks with a `title`, a `text` and `fields` (see `field`); `yes` is the button that confirms. `read(values)` returns a line
 * that follows what is typed. `mustEqual` is a text that the only field must have. Resolves to the values by name, or to
 * null.
 */
export function ask({ title, text, fields = [], yes, no = t("dialog.no"), tone = "", read = () => "", mustEqual = null }) {
  return new Promise((resolve) => {
    const inputs = fields.map(({ name, label, kind = "input", hint: _, ...properties }) =>
      el(kind, { id: `ask-${name}`, name, "aria-label": label, testid: `ask-${name}`, autocomplete: "off", ...properties }));
    const values = () => Object.fromEntries(inputs.map(({ name, value }) => [name, value]));
    const outcome = el("p", { class: "outcome-line", role: "status", testid: "dialog-outcome" });
    const confirm = el("button", { class: `button ${tone || "primary"}`, value: "yes", testid: "dialog-yes", autofocus: !fields.length }, yes);
    const follow = () => {
      setText(outcome, read(values()));
      confirm.disabled = mustEqual !== null && inputs[0].value.trim() !== mustEqual;
    };
    const dialog = el(
      "dialog", { class: "dialog", "aria-label": title },
      el(
        "form", { method: "dialog", oninput: follow, onsubmit: () => (dialog.returnValue = "yes") },
        el("h2", {}, title), text && el("p", { class: "follows" }, text),
        fields.map(({ label, hint }, index) => el("p", { class: "field" },
          el("label", { for: inputs[index].id }, label), inputs[index], hint && el("span", { class: "hint" }, hint))),
        outcome,
        el("div", { class: "actions" },
          el("button", { type: "button", class: "button", testid: "dialog-no", onclick: () => dialog.close("no") }, no), confirm),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? values() : null);
    });
    document.body.append(dialog);
    follow();
    dialog.showModal();
  });
}

/** Asks without fields. Resolves to whether it was confirmed. */
export const confirm = async (question) => (await ask(question)) !== null;
