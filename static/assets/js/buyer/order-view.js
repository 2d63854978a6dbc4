// Renders the order page: what was bought, what comes next, and the receipt.

import { clock } from "../shared/client.js";
import { byId, el, picture, setText, setVisible } from "../shared/dom.js";
import { count, dayAndTimeInside, duration, moment, shortCountdown } from "../shared/format.js";
import { hasText, sentences, t, titled } from "../shared/i18n.js";
import * as session from "../shared/session.js";
import { tab } from "../shared/storage.js";
import * as addressForm from "./address.js";
import { amountText, itemName, orderCode, orderText, placeText } from "./order-words.js";

/** The mark above the headline, by what is shown: a path in a square of 24. */
const CHECK = "M6 12.5l4 4 8-9";
const BADGES = {
  queued: CHECK, pending_payment: CHECK, paid: CHECK,
  waiting: "M12 7v5l3 3", confirming: "M12 7v5l3 3", expired: "M12 7v5l3 3", sale_ended: "M12 7v5l3 3",
  refunding: "M10 7l-4 4 4 4M6 11h8a4 4 0 0 1 0 8", refunded: "M10 7l-4 4 4 4M6 11h8a4 4 0 0 1 0 8",
  declined: "M12 6.5v7M12 17v.01", failed: "M12 6.5v7M12 17v.01",
  cancelled: "M8 8l8 8M16 8l-8 8", left_line: "M8 8l8 8M16 8l-8 8", removed: "M8 8l8 8M16 8l-8 8",
};

/** What is shown while the buyer is to pay. */
const isUnpaid = (shown) => ["pending_payment", "declined"].includes(shown);

/** The control in the bar, by what is shown; where the buyer is to pay, it depends on the session. */
const BAR = { queued: "pay", confirming: "pay", paid: "print" };

let boughtShown = "";

/**
 * Renders all but the times. `shown` is what `stateToShow` returns; `hasWaited` says whether the buyer waited in the line; `sale` is
 * the activity, null if it cannot be loaded, undefined until it is; `checkout` is how the sale asks for the address.
 */
export function render({ order, shown, hasWaited, sale, checkout, isChanging, isBusy, refundUntil, saleUrl, paymentUrl }) {
  const text = (key, values) => orderText(key, { ...order, checkout }, values);
  byId("order").dataset.status = shown;
  setVisible(byId("order"), true);
  document.title = titled(isUnpaid(shown) ? text("order.pay_now") : text(`status.${shown}`));
  const rule = shown === "waiting" && sale?.line && t("line.rule", { time: duration(sale.line.offer_seconds) });
  setText(byId("explain"), reasonText(order, text) ?? sentences(rule, text(`order.${shown}_more`)));
  byId("badge").setAttribute("d", BADGES[shown]);
  setText(byId("eyebrow"), t(hasWaited ? "order.your_turn" : "order.queued"));
  setVisible(byId("eyebrow"), shown === "pending_payment");
  celebrate(order.order_no, shown);
  renderBought(order, sale);
  renderQueue(order);
  renderAddress({ order, shown, checkout, isChanging });
  renderReceipt(order, refundUntil, text);
  // The form would push it down.
  setVisible(byId("rest"), Boolean(checkout) || !isUnpaid(shown));
  renderBar({ order, shown, sale, checkout, isChanging, isBusy, saleUrl, paymentUrl, text });
  renderTimes({ order, shown, checkout });
}

/** Updates what changes with the clock. */
export function renderTimes({ order, shown, checkout }) {
  const left = isUnpaid(shown) && clock.isSet() ? clock.millisecondsUntil(order.pay_by) : NaN;
  const time = shortCountdown(left);
  const isTimed = shown === "pending_payment" && left > 0;
  setText(byId("headline"), orderText(isTimed ? "order.yours_for" : `order.${shown}`, { ...order, checkout }, { time }));
  setText(byId("pay-left"), Number.isNaN(left) ? "" : t("order.left", { time }));
  byId("bar").classList.toggle("is-urgent", left < 60_000);
}

const reasonText = ({ reason, status }, text) =>
  reason && status !== "paid" && hasText(`reason.${reason}`) ? text(`reason.${reason}`) : null;

/** The moment is animated once: where the order was made, not after a reload. */
function celebrate(orderNo, shown) {
  const key = `stampede.celebrated.${orderNo}`;
  if (!["queued", "pending_payment"].includes(shown) || !session.orderTicket(orderNo) || tab.getItem(key)) return;
  tab.setItem(key, "1");
  byId("moment").classList.add("is-fresh");
}

function renderBought(order, sale) {
  const sku = sale?.skus.find((known) => known.sku === order.sku);
  const item = sku ? itemName(sku) : order.sku;
  setText(byId("bought-item"), `${count(order.quantity)} × ${item}`);
  setText(byId("sale-title"), sale?.title ?? "");
  setText(byId("bought-amount"), amountText(order));
  const image = sku?.image || sale?.image;
  // A new element would load its picture again.
  if (boughtShown !== `${image} ${item}`) byId("bought-picture").replaceChildren(picture(image, item));
  boughtShown = `${image} ${item}`;
}

function renderQueue({ order_no: orderNo, status, ahead, estimated_wait_ms: wait = 0 }) {
  const key = `stampede.longest_queue.${orderNo}`;
  const isShown = status === "waiting" || status === "queued";
  setVisible(byId("queue"), isShown);
  if (!isShown) return tab.removeItem(key);
  setText(byId("ahead"), placeText({ status, ahead }));
  // The server cannot say it now: the meter stays.
  if (ahead === undefined) return;
  // In the tab, so that a reload does not begin again.
  const longest = Math.max(Number(tab.getItem(key)), ahead);
  tab.setItem(key, String(longest));
  const minutes = Math.ceil(wait / 60_000);
  setText(byId("wait"), minutes > 1 ? t("order.wait", { minutes: count(minutes) }) : wait > 1_000 ? t("order.wait_short") : "");
  byId("queue-fill").style.setProperty("--share", longest ? 1 - ahead / longest : 1);
}

function renderAddress({ order, shown, checkout, isChanging }) {
  const isOpened = Boolean(order.checkout_url);
  const hasForm = isUnpaid(shown) && checkout === "form" && (!isOpened || isChanging);
  const isGiven = isUnpaid(shown) && checkout === "form" && isOpened;
  const isAskedLater = isUnpaid(shown) && checkout === "provider";
  setVisible(byId("payment"), hasForm || isGiven || isAskedLater);
  setVisible(byId("pay-form"), hasForm);
  // Fields that are not shown are not validated.
  byId("address").disabled = !hasForm;
  setVisible(byId("delivery"), isGiven && !isChanging);
  setText(byId("delivery-text"), isGiven ? addressForm.sentTo(order.order_no) ?? t("order.delivery_given") : "");
  setVisible(byId("change-address"), isGiven);
  setText(byId("change-address"), t(isChanging ? "order.keep_address" : "order.change_address"));
  setVisible(byId("asked-later"), isAskedLater);
}

function renderReceipt(order, refundUntil, text) {
  setVisible(byId("receipt-title"), Boolean(order.paid_at));
  setText(byId("code"), orderCode(order.order_no));
  byId("facts").replaceChildren(...rows([
    [text("order.paid_at"), order.paid_at && moment(order.paid_at)],
    [t("order.sum"), order.paid_at && order.amount > 0 && [whole(amountText(order)), " ", whole(text("order.included"), "quiet")]],
    [t("order.part_refunded"), order.refunded_amount && whole(amountText({ ...order, amount: order.refunded_amount }))],
    [t("order.delivery"), order.paid_at && addressForm.sentTo(order.order_no)],
    [text("order.refund_until"), refundUntil && moment(refundUntil)],
  ]));
  renderDetails(order);
}

/** Renders what is behind "Details", once that is open. */
export function renderDetails({ order_no: orderNo, created_at: createdAt }) {
  if (!byId("more").open) return;
  byId("more-facts").replaceChildren(...rows([[t("order.number"), wholeParts(orderNo)], [t("order.created"), moment(createdAt)]]));
}

const rows = (facts) =>
  facts.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);

/** A part of a text, which breaks into lines only if it is longer than a line. */
const whole = (part, look = "") => el("span", { class: `whole ${look}` }, part);

/** An order number that breaks behind its dot. */
function wholeParts(number) {
  const dot = number.lastIndexOf(".") + 1;
  return [number.slice(0, dot), number.slice(dot)].map((part) => whole(part));
}

/** The bar at the bottom has the next step in every state, in a box that stays. */
function renderBar({ order, shown, sale, checkout, isChanging, isBusy, saleUrl, paymentUrl, text }) {
  const amount = amountText(order);
  const isOpened = Boolean(order.checkout_url) && !isChanging;
  const control = isUnpaid(shown) ? (isOpened ? "to-payment" : "pay") : BAR[shown] ?? "again";
  for (const id of ["pay", "to-payment", "print", "again"]) setVisible(byId(id), id === control);
  const payText = isUnpaid(shown) ? text("order.pay", { amount }) : t(`order.pay_${shown === "confirming" ? "confirming" : "soon"}`);
  setText(byId("pay"), payText);
  byId("pay").disabled = !isUnpaid(shown) || !checkout || isBusy;
  setText(byId("to-payment"), shown === "declined" ? t("order.pay_again") : t("order.to_payment"));
  if (order.checkout_url) byId("to-payment").href = paymentUrl(order.checkout_url);
  byId("again").href = saleUrl;
  const isTotal = control !== "again";
  setText(byId("bar-text"), isTotal ? text("order.total", { amount }) : sale?.title ?? "");
  setText(byId("bar-more"), !isTotal ? untilText(sale) : order.amount > 0 ? text("order.included") : "");
  setVisible(byId("bar"), true);
}

/** Whether a way back to the sale is one to more of it. */
const untilText = (sale) =>
  (sale ? t(sale.phase === "ended" ? "list.ended_at" : "list.until", { time: dayAndTimeInside(sale.ends_at, clock.now()) }) : "");
