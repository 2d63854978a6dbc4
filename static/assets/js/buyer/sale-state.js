// State of the sale page, and values derived from it.

import { clock } from "../shared/client.js";

/** How long a refusal "sold out" marks a SKU as sold out, so that the gate has time to list it. */
const REFUSAL_LIFETIME_MS = 3_000;

export const state = {
  /** The activity's id. */
  id: new URLSearchParams(location.search).get("activity") ?? "",
  /** The activity as loaded last, or null. */
  activity: null,
  /** The gate as polled last, or null. */
  gate: null,
  /** SKU → `performance.now()` of the last refusal "sold out". */
  refusedAt: new Map(),
  /** The `performance.now()` until which the buttons stay disabled after a click. */
  disabledUntil: 0,
  /** The user's orders of this activity; null while they are being loaded. */
  orders: [],
  /** The SKU of which the user wants another one, although an order of it is to be paid. */
  buysAnother: undefined,
  /** The SKU that the button buys; null until the activity is loaded. */
  chosen: null,
  /** Card → units that the button buys of its chosen SKU. */
  quantities: new Map(),
  /** The running attempt as reported last: `{step, error, until}`, or null. */
  progress: null,
  /** Why this user may not take part: the error of the ticket, or null. */
  refusal: null,
  /** `{sku, quantity}` that would be more than one person may have, or null. */
  atLimit: null,
  /** The sale that starts next, once it is known that this one has nothing left; null if there is none. */
  next: undefined,
};

/** The SKU that the button buys. */
export const chosenSku = () => state.activity.skus.find(({ sku }) => sku === state.chosen) ?? state.activity.skus[0];

/** The card of a SKU: SKUs of one item share it. */
export const cardOf = ({ item, sku }) => (item ? `item ${item}` : `sku ${sku}`);

/** The units that the button buys. */
export const chosenQuantity = () => (joins(chosenSku()) ? 1 : state.quantities.get(cardOf(chosenSku())) ?? 1);

export const startsAt = () => state.gate?.starts_at ?? state.activity.starts_at;
export const endsAt = () => state.gate?.ends_at ?? state.activity.ends_at;

/** The phase: paused and ended by the gate (until its first poll by the activity), open by the server's clock. */
export function phase() {
  const reported = state.gate?.phase ?? state.activity.phase;
  if (reported === "paused" || reported === "ended") return reported;
  return clock.millisecondsUntil(startsAt()) <= 0 ? "open" : "scheduled";
}

/** Whether this SKU is sold out, and its line is full: by a recent refusal, else by the gate, else by its stock. */
export function isSoldOut({ sku, total, left, waiting }) {
  if (performance.now() - (state.refusedAt.get(sku) ?? -Infinity) < REFUSAL_LIFETIME_MS) return true;
  if (state.gate) return state.gate.sold_out.includes(sku);
  return total >= 0 && left === 0 && waiting === undefined && state.activity.phase === "open";
}

/** Whether every SKU is sold out. */
export const isAllSoldOut = () => state.activity.skus.every(isSoldOut);

/** Whether a tap joins the line for this SKU: nothing is left of it, and the line has room. */
export const joins = (sku) => sku.waiting !== undefined && sku.left === 0 && !isSoldOut(sku);

/** Whether nothing is on sale, and a line has room. */
export const hasOnlyLines = () => !isAllSoldOut() && state.activity.skus.every((sku) => isSoldOut(sku) || joins(sku));

/** Whether a recent click still disables the buttons, or it is not yet known what is to be paid. */
export const areButtonsDisabled = () => performance.now() < state.disabledUntil || state.orders === null;

/** The user's orders that are to be paid, now, soon or if a unit comes back; the one whose time runs out first is the first. */
export function openOrders() {
  const without = { queued: Number.MAX_SAFE_INTEGER - 1, waiting: Number.MAX_SAFE_INTEGER };
  const millisecondsLeft = ({ status, pay_by: payBy }) => without[status] ?? clock.millisecondsUntil(payBy);
  const isOpen = (order) => ["waiting", "queued", "pending_payment"].includes(order.status) && millisecondsLeft(order) > 0;
  return (state.orders ?? []).filter(isOpen).sort((a, b) => millisecondsLeft(a) - millisecondsLeft(b));
}

/** The order that the button of this SKU leads to, instead of making another; undefined if there is none. */
export const orderToPay = (sku) => (sku === state.buysAnother ? undefined : openOrders().find((order) => order.sku === sku));
