// The form that shows one order by its number: buyer, address, payment callbacks, refunds and events.

import { byId, el } from "../shared/dom.js";
import { exactMoment, money } from "../shared/format.js";
import { runAction, send } from "./requests.js";

byId("lookup").addEventListener("submit", async (event) => {
  event.preventDefault();
  byId("lookup-result").replaceChildren();
  const orderNo = byId("lookup-order").value.trim();
  const order = await runAction(event.submitter, () => send("GET", `/orders/${encodeURIComponent(orderNo)}`));
  if (order) byId("lookup-result").replaceChildren(...describe(order));
});

function describe(order) {
  const { order_no: orderNo, status, user, quantity, sku, amount, currency, payment, reason, address } = order;
  const time = (text) => text && exactMoment(text);
  return [
    el("h3", {}, orderNo),
    facts([
      ["Status", [status, reason].filter(Boolean).join(": ")],
      ["Buyer", el("span", { class: "exact" }, user)],
      ["Item", `${quantity} × ${sku}`],
      ["Amount", money(amount, currency)],
      ["Reserved", time(order.created_at)],
      ["To be paid by", time(order.pay_by)],
      ["Paid", time(order.paid_at)],
      ["Payment", payment],
      ["Address", address && describeAddress(address)],
    ]),
    ...list("Payment callbacks", order.callbacks, ({ type, received_at: at, outcome, other_session: otherSession }) => [
      time(at), type, outcome, otherSession && "names another session",
    ]),
    ...list("Refunds", order.refunds, ({ state, attempts, last_error: error, ...refund }) => [
      money(refund.amount, refund.currency), refund.returned && `${money(refund.returned, refund.currency)} of it in parts`, state, `attempts: ${attempts}`, error,
    ]),
    ...list("Events to the shop", order.events, ({ happened_at: at, type, state, last_error: error }) => [
      time(at), type, state, error,
    ]),
  ];
}

/** The lines of an address: those of our own form first, as one writes them. */
const describeAddress = (address) =>
  [...new Set([...LINES, ...Object.keys(address)])].map((name) => address[name]).filter(Boolean).join(", ");

const LINES = ["name", "street", "postal_code", "city", "state", "country"];

const facts = (entries) =>
  el("dl", { class: "facts" }, entries.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

const list = (title, items, toTexts) =>
  items.length ? [el("h4", {}, title), el("ul", {}, items.map((item) => el("li", {}, toTexts(item).filter(Boolean).join(" · "))))] : [];
