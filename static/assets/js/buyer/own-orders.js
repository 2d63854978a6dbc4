// The buyer's orders of this sale that are to be paid, and the way to them: no tap makes a second order by accident.

import { client, clock } from "../shared/client.js";
import { byId, setText, setVisible } from "../shared/dom.js";
import { shortCountdown } from "../shared/format.js";
import { sentences, t } from "../shared/i18n.js";
import { randomUpTo } from "../shared/poll.js";
import * as session from "../shared/session.js";
import { device } from "../shared/storage.js";
import { placeText } from "./order-words.js";
import { openOrders, phase, state } from "./sale-state.js";

/** Present if this browser may have made an order of this sale. Without it no orders are requested: most visitors have none. */
const HAS_ORDERED = `stampede.has_ordered.${state.id}`;

let loading = null;
let nextLoad = 0;

export const hasOrdered = () => device.getItem(HAS_ORDERED) !== null;
export const noteOrder = (attempt = "") => device.setItem(HAS_ORDERED, attempt);
/** Undoes the note of an attempt that made no order, unless another tab has noted one since. */
export const forgetOrder = (attempt) => device.getItem(HAS_ORDERED) === attempt && device.removeItem(HAS_ORDERED);

/** Call once. Loads the orders now, and whenever they may have changed in another tab. */
export function start() {
  const loadAgain = () => {
    state.atLimit = null;
    void load();
  };
  document.addEventListener("visibilitychange", () => document.hidden || loadAgain());
  addEventListener("pageshow", ({ persisted }) => persisted && loadAgain());
  byId("buy-another").addEventListener("click", () => {
    state.buysAnother = openOrders()[0]?.sku;
    render();
  });
  setInterval(render, 250);
  void load();
}

/** Forgets the orders of the previous user. */
export function reset() {
  Object.assign(state, { orders: [], buysAnother: undefined, atLimit: null });
  loading = null;
  void load();
}

/** Adds an order that was just made. */
export function add(order) {
  noteOrder();
  state.orders = [order, ...(state.orders ?? [])];
  state.buysAnother = undefined;
}

/** Resolves when the orders are known, if there may be any. Concurrent callers share one request. */
export function load() {
  if (!session.token() || !hasOrdered()) return Promise.resolve();
  if (loading) return loading;
  if (openOrders().length === 0) state.orders = null;
  const thisLoad = fetchOrders().then((orders) => {
    if (loading !== thisLoad) return;
    loading = null;
    // The sale goes on without the list. An order that was made meanwhile is in the next one.
    state.orders = orders ?? state.orders ?? [];
    clearTimeout(nextLoad);
    const has = (wanted) => openOrders().some(({ status }) => status === wanted);
    const pause = has("queued") ? 3_000 : has("waiting") ? 20_000 : 0;
    if (pause) nextLoad = setTimeout(() => document.hidden || void load(), pause + randomUpTo(2_000));
    render();
  });
  return (loading = thisLoad);
}

/** The user's orders of this sale, or null if they cannot be loaded. */
async function fetchOrders() {
  try {
    const orders = await client.orders();
    return orders.filter(({ order_no: orderNo }) => orderNo.slice(0, orderNo.lastIndexOf(".")) === state.id);
  } catch {
    return null;
  }
}

export const orderAddress = (orderNo) => `/order?order_no=${encodeURIComponent(orderNo)}`;

/** Shows the order whose time runs out first. */
function render() {
  if (!state.activity || !clock.isSet()) return;
  const [order] = openOrders();
  setVisible(byId("to-pay"), order !== undefined && !state.progress);
  if (!order) return;
  const left = shortCountdown(clock.millisecondsUntil(order.pay_by));
  const place = order.status === "waiting" && placeText(order);
  setText(byId("to-pay-text"), order.status === "pending_payment" ? t("sale.to_pay", { time: left }) : sentences(t(`bar.${order.status}`), place));
  const held = openOrders().reduce((units, { sku, quantity }) => units + (sku === order.sku ? quantity : 0), 0);
  const isPossible = phase() === "open" && order.status !== "waiting" && held < state.activity.per_user;
  setVisible(byId("buy-another"), isPossible && order.sku !== state.buysAnother);
}
