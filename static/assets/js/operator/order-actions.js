// What operators do for a buyer: cancel an order, give more time to pay.

import { ask } from "./dialog.js";
import { button } from "./parts.js";
import { runAction, send } from "./requests.js";
import { t } from "./words.js";

const reasonField = () => ({ name: "reason", label: t("reason"), hint: t("reason.hint"), maxlength: 200, required: true });

/** The buttons for an order; `load()` shows it anew. */
export const actionsOf = (order, load) => Object.entries(ACTIONS).filter(([, { isPossible }]) => isPossible(order)).map(([name, { run }]) =>
  button(`order-${name}`, t(`order.${name}`), ({ target }) => void run(target, order).then(load, () => {})));

const post = (button, { order_no: orderNo }, action, body) =>
  runAction(button, () => send("POST", `/orders/${encodeURIComponent(orderNo)}/${action}`, body), t(`order.${action}.done`));

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
};
