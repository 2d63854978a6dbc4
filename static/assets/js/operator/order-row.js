// A row for an order, and the words of its state.

import { el } from "../shared/dom.js";
import { dayAndTime, priceText } from "../shared/format.js";
import { chip } from "./parts.js";
import { t } from "./words.js";

/** The last eight characters of an order's ULID, as buyers see them. */
export const orderCode = (orderNo) => orderNo.slice(-8).replace(/^.{4}/, "$&-");

const TONES = { paid: "open", refunding: "paused", refunded: "ended", cancelled: "ended", expired: "ended", failed: "bad" };

export const orderChip = ({ status, refunded_amount: refunded }) => {
  const isPart = status === "paid" && refunded > 0;
  return chip(isPart ? "paused" : TONES[status] ?? "scheduled", t(isPart ? "status.part_refunded" : `status.${status}`), { testid: "order-status" });
};

export const orderLink = (orderNo) => `/admin/order?${new URLSearchParams({ no: orderNo })}`;

const cells = ({ order_no: orderNo, user, quantity, sku, amount, currency, created_at: at, ...order }) => [
  el("span", { class: "code" }, orderCode(orderNo)),
  el("span", { class: "exact who-cell" }, user),
  el("span", { class: "quiet" }, `${quantity} × ${sku}`),
  el("span", { class: "number" }, priceText(amount, currency)),
  orderChip(order),
  el("time", { datetime: at, class: "quiet" }, dayAndTime(at, Date.now())),
];

/** A link to the order's page. */
export const orderRow = (order) =>
  el("li", {}, el("a", { class: "order-row", href: orderLink(order.order_no), testid: "order-row" }, cells(order)));

/** A link to the page of an entry of a line, with its buttons. */
export const entryRow = (entry, buttons = []) =>
  el("li", { testid: "entry-row" }, el("a", { class: "order-row", href: orderLink(entry.order_no) }, cells(entry)), buttons);
