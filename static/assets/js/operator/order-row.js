// A row for an order, and the words of its state.

import { el } from "../shared/dom.js";
import { dayAndTime, priceText } from "../shared/format.js";
import { chip } from "./parts.js";
import { t } from "./words.js";

/** The last eight characters of an order's ULID, as buyers see them. */
export const orderCode = (orderNo) => orderNo.slice(-8).replace(/^.{4}/, "$&-");

const TONES = { paid: "open", refunding: "paused", refunded: "ended", cancelled: "ended", expired: "ended", failed: "bad" };

export const orderChip = (status) => chip(TONES[status] ?? "scheduled", t(`status.${status}`), { testid: "order-status" });

export const orderLink = (orderNo) => `/admin/order?${new URLSearchParams({ no: orderNo })}`;

/** A link to the order's page. */
export const orderRow = ({ order_no: orderNo, user, quantity, sku, amount, currency, status, created_at: at }) =>
  el("li", {}, el("a", { class: "order-row", href: orderLink(orderNo), testid: "order-row" },
    el("span", { class: "code" }, orderCode(orderNo)),
    el("span", { class: "exact who-cell" }, user),
    el("span", { class: "quiet" }, `${quantity} × ${sku}`),
    el("span", { class: "number" }, priceText(amount, currency)),
    orderChip(status),
    el("time", { datetime: at, class: "quiet" }, dayAndTime(at, Date.now()))));
