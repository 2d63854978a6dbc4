// The presale code of a sale that asks for one: it goes with each request for a ticket of this tab.

import { byId, setText, setVisible } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { phase, state } from "./sale-state.js";
import * as tickets from "./ticket.js";

const key = () => `stampede.code.${state.id}`;

/** The code that the visitor gave; an empty text where the sale asks for one and none was given, undefined where it does not. */
export const givenCode = () => (state.activity.eligibility.codes ? sessionStorage.getItem(key()) ?? "" : undefined);

/** Calls `onCode` when a code is given. */
export function startCodeForm(onCode) {
  byId("code-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(key(), byId("code").value.trim());
    setText(byId("code-note"), "");
    onCode();
  });
}

/** Leads to the field. */
export function goToCode() {
  byId("code-form").scrollIntoView({ block: "center" });
  byId("code").focus();
}

/** Shows the form where the sale asks for a code, and what became of the code. */
export function renderCode() {
  const asks = Boolean(state.activity.eligibility.codes) && phase() !== "ended";
  setVisible(byId("code-form"), asks);
  if (!asks) return;
  const isIn = tickets.unusedTicket(state.id) !== null;
  if (!byId("code").value && document.activeElement !== byId("code")) byId("code").value = givenCode();
  for (const id of ["code", "code-use"]) byId(id).disabled = isIn;
  const isRefused = state.refusal?.requires === "code" && givenCode() !== "";
  byId("code").setAttribute("aria-invalid", String(isRefused));
  setText(byId("code-note"), isIn ? t("code.in") : isRefused ? t("code.wrong") : t("code.hint"));
  byId("code-note").dataset.tone = isIn ? "good" : isRefused ? "bad" : "";
}
