// What operators do for a buyer: cancel an order, end a wait in the line, give money back, give more time to pay.

import { currencyDecimals } from "../../client/index.js";
import { money } from "../shared/format.js";
import { amountPattern, toMinorUnits, toText } from "./amounts.js";
import { ask } from "./dialog.js";
import { orderLink } from "./order-row.js";
import { button } from "./parts.js";
import { runAction, send } from "./requests.js";
import { t } from "./words.js";

const reasonField = () => ({ name: "reason", label: t("reason"), hint: t("reason.hint"), maxlength: 200, required: true });

/** The buttons for an order; `load(changed)` shows it anew. */
export const actionsOf = (order, load) => Object.entries(ACTIONS).filter(([, { isPossible }]) => isPossible(order)).map(([name, { run }]) =>
  button(`order-${name}`, t(`order.${name}`), ({ target }) => void run(target, order).then(load, () => {})));

const path = ({ order_no: orderNo }, action = "") => `/orders/${encodeURIComponent(orderNo)}${action}`;

const post = (button, order, action, body, options) =>
  runAction(button, () => send("POST", path(order, `/${action}`), body, options), t(`order.${action}.done`));

const ACTIONS = {
  extend: {
    isPossible: ({ status, amount }) => status === "pending_payment" && amount >= 0,
    async run(button, order) {
      const answer = await ask({
        title: t("order.extend.ask"), text: t("order.extend.follows"), yes: t("order.extend"),
        fields: [{ name: "minutes", label: t("order.extend.minutes"), type: "number", min: 1, max: 1440, value: 10, required: true }, reasonField()],
      });
      if (answer) await post(button, order, "extend", { seconds: Number(answer.minutes) * 60, reason: answer.reason });
    },
  },
  cancel: {
    isPossible: ({ status }) => ["queued", "pending_payment"].includes(status),
    async run(button, order) {
      const answer = await ask({ title: t("order.cancel.ask"), text: t("order.cancel.follows"), yes: t("order.cancel"), tone: "danger", fields: [reasonField()] });
      if (answer) await post(button, order, "cancel", answer);
    },
  },
  remove: {
    isPossible: ({ status }) => status === "waiting",
    async run(button, entry) {
      const answer = await ask({ title: t("order.remove.ask"), text: t("order.remove.follows"), yes: t("order.remove"), tone: "danger", fields: [reasonField()] });
      return answer && runAction(button, () => endWait(entry, answer), (ended) => (ended ? t("order.remove.done") : ""));
    },
  },
  refund: {
    isPossible: ({ status, refundable_amount: rest }) => status === "paid" && rest > 0,
    async run(button, order) {
      const { currency, refundable_amount: rest } = order;
      const decimals = currencyDecimals(currency);
      const answer = await ask({
        title: t("order.refund.ask"), text: t("order.refund.follows", { amount: money(rest, currency) }), yes: t("order.refund"),
        fields: [
          { name: "amount", label: t("order.refund.amount", { currency }), value: toText(rest, decimals), inputmode: "decimal", pattern: amountPattern(decimals), title: t("bad.price"), required: true },
          reasonField(),
        ],
        read: ({ amount }) => outcome(toMinorUnits(amount, decimals), rest, currency),
      });
      if (!answer) return;
      const amount = toMinorUnits(answer.amount, decimals);
      // The key stays until the server has answered: an operator who tries again refunds nothing more.
      const name = `refund ${order.order_no} ${amount}`;
      const key = sessionStorage.getItem(name) ?? crypto.randomUUID();
      sessionStorage.setItem(name, key);
      const isDone = await post(button, order, "refund", { amount, reason: answer.reason }, { headers: { "idempotency-key": key } });
      if (isDone) sessionStorage.removeItem(name);
    },
  },
};

/** Ends a wait in the line. If a unit was offered meanwhile, shows the order, which the call would cancel. */
async function endWait(entry, reason) {
  const { status } = await send("GET", path(entry));
  return status === "waiting" ? send("POST", path(entry, "/cancel"), reason) : location.assign(orderLink(entry.order_no));
}

function outcome(amount, rest, currency) {
  if (!Number.isSafeInteger(amount)) return t("bad.price");
  if (amount > rest) return t("order.refund.too_much", { amount: money(rest, currency) });
  return t(amount === rest ? "order.refund.whole" : "order.refund.part", { amount: money(amount, currency) });
}
