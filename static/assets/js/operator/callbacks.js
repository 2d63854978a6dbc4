// The list of payment callbacks that wait for an operator's decision, which needs the role `money`.

import { byId, confirmDialog, el, setText, setVisible } from "../shared/dom.js";
import { exactMoment, money } from "../shared/format.js";
import { explain, runAction, send } from "./requests.js";

/** What an operator can do: route, label, question, and what has happened then. */
const ACTIONS = [
  ["replay", "Apply again", "Apply this callback again?", "The callback was applied again."],
  ["refund", "Refund", "Send this payment back to the buyer?", "The payment is on its way back."],
  ["dismiss", "Dismiss", "Dismiss this callback? Nothing is done about it then.", "The callback is dismissed."],
];

const PAGE_SIZE = 200;

let lastId = "";

byId("callbacks-refresh").addEventListener("click", (event) => void runAction(event.target, load));
byId("callbacks-more").addEventListener("click", (event) => void runAction(event.target, loadMore));

/** Loads the first page of the list, newest first. */
export const load = () => loadPage("");

const loadMore = () => loadPage(lastId);

async function loadPage(before) {
  try {
    const page = await send("GET", `/callbacks?${new URLSearchParams({ before, limit: PAGE_SIZE })}`);
    if (!before) byId("callbacks").replaceChildren();
    byId("callbacks").append(...page.map(row));
    lastId = page.at(-1)?.id ?? lastId;
    setVisible(byId("callbacks-more"), page.length === PAGE_SIZE);
    setVisible(byId("no-callbacks"), byId("callbacks").childElementCount === 0);
    setText(byId("callbacks-trouble"), "");
  } catch (error) {
    setText(byId("callbacks-trouble"), `The callbacks cannot be shown: ${explain(error)}`);
  }
}

function row({ id, type, order_no: orderNo, amount, currency, provider, received_at: receivedAt, outcome }) {
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
    el("td", {}, outcome),
    el("td", {}, exactMoment(receivedAt)),
    el("td", { class: "row-actions" }, actions.map((action) =>
      el("button", { type: "button", class: "button", testid: `callback-${action[0]}`, onclick: ({ target }) => void resolve(target, action) }, action[1]))),
  );
}
