// The list of payment callbacks that wait for an operator's decision, which needs the role `money`.

import { confirmDialog, el } from "../shared/dom.js";
import { exactMoment, money } from "../shared/format.js";
import { pagedList } from "./paged-list.js";
import { runAction, send } from "./requests.js";

/** What an operator can do: route, label, question, and what has happened then. */
const ACTIONS = [
  ["replay", "Apply again", "Apply this callback again?", "The callback was applied again."],
  ["refund", "Refund", "Send this payment back to the buyer?", "The payment is on its way back."],
  ["dismiss", "Dismiss", "Dismiss this callback? Nothing is done about it then.", "The callback is dismissed."],
];

/** Loads the first page of the list, newest first. */
export const load = pagedList("callbacks", {
  path: "/callbacks",
  pageSize: 200,
  row,
  title: "callbacks",
});

function row({ id, type, order_no: orderNo, amount, currency, provider, received_at: receivedAt, outcome, other_session: otherSession }) {
  const resolve = async (button, [action, label, question, done]) => {
    if (!(await confirmDialog(question, label, "Leave it"))) return;
    await runAction(button, () => send("POST", `/callbacks/${encodeURIComponent(id)}/${action}`, {}), done);
    await load();
  };
  const actions = ACTIONS.filter(([action]) => action !== "refund" || type === "payment.succeeded");
  return el(
    "tr",
    { testid: "callback" },
    el("td", {}, orderNo, el("span", { class: "id" }, id)),
    el("td", {}, type, el("span", { class: "id" }, provider)),
    el("td", { class: "number" }, currency ? money(amount, currency) : ""),
    el("td", {}, outcome, otherSession && el("span", { class: "id" }, "names another session")),
    el("td", {}, exactMoment(receivedAt)),
    el("td", { class: "row-actions" }, actions.map((action) =>
      el("button", { type: "button", class: "button", testid: `callback-${action[0]}`, onclick: ({ target }) => void resolve(target, action) }, action[1]))),
  );
}
