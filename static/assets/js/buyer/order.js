// The page of one order: place in the queue, payment, and result.

import { client, clock } from "../shared/client.js";
import { byId, confirmDialog, el, setText, setVisible } from "../shared/dom.js";
import { count, countdown, moment, money } from "../shared/format.js";
import { hasText, localized, t, titled } from "../shared/i18n.js";
import { pauseWhileHidden } from "../shared/poll.js";
import { explain, explainOrder, isTransient } from "../shared/problems.js";
import * as session from "../shared/session.js";
import * as shell from "../shared/shell.js";
import { tab } from "../shared/storage.js";
import * as addressForm from "./address.js";
import * as lostOrder from "./lost-order.js";
import { showNotice } from "./notice.js";
import * as payNotification from "./pay-notification.js";

/** How often a hidden page polls, in milliseconds: its title says when the order can be paid. */
const HIDDEN_INTERVAL = 20_000;

const orderNo = new URLSearchParams(location.search).get("order_no") ?? "";
/** Whether the buyer comes from the payment page, after paying there. */
let hasPaid = new URLSearchParams(location.search).get("payment") === "done";
const activity = orderNo.slice(0, orderNo.lastIndexOf("."));

/** The `declined_at` that this tab has shown last. */
const DECLINE_SHOWN = `stampede.decline.${orderNo}`;

let order = null;
let isDeclined = false;
let longestQueue = 0;
/** The status before the buyer's last command. */
let leftStatus;

/** How long after the payment the sale takes requests for a refund; null until the activity is loaded. */
let refundSeconds = null;
let poller = null;

shell.start();
shell.onSessionChange(start);
byId("pay-form").addEventListener("submit", pay);
byId("cancel").addEventListener("click", () => void confirmAndSend(client.cancel, "order.cancel_ask", "order.cancel"));
byId("refund").addEventListener("click", () => void confirmAndSend(client.refund, "order.refund_ask", "order.refund"));
setInterval(renderTimeLeft, 250);
setInterval(() => document.hidden && void poller?.runNow(), HIDDEN_INTERVAL);
addEventListener("online", () => void poller?.runNow());
addressForm.fillCountries();
addressForm.watch(orderNo);
payNotification.offer();
// `performance.now()` may stop while the device sleeps: set the clock again from the server's time.
document.addEventListener("visibilitychange", () => document.hidden || void loadActivity());
void loadActivity();
start();

function start() {
  poller?.stop();
  removeOrder();
  setVisible(byId("missing"), false);
  addressForm.fill(orderNo);
  if (!session.orderCredential(orderNo)) {
    showNotice({ tone: "calm", text: t("problem.unauthenticated") });
    return void shell.askToSignIn();
  }
  showNotice(null);
  startPolling();
}

/** Removes what was shown to the previous user. */
function removeOrder() {
  order = null;
  setVisible(byId("order"), false);
  byId("facts").replaceChildren();
  byId("to-payment").removeAttribute("href");
}

function startPolling() {
  poller?.stop();
  const user = session.user();
  poller = pauseWhileHidden(({ isPaused }) => client.pollOrder(orderNo, {
    isPaused,
    left: leftStatus,
    token: () => session.orderCredential(orderNo),
    onChange(newOrder) {
      // Another user has signed in since: the order is not shown to them.
      if (session.user() !== user) return poller.stop();
      if (newOrder !== order) update(newOrder);
      showNotice(null, "error");
    },
    onError(error) {
      if (session.user() !== user) return poller.stop();
      if (error.code === "not_found") return void findMissing(user);
      if (error.code === "unauthenticated") return void shell.signInAgain();
      showNotice({ tone: "calm", text: explainOrder(error) }, "error");
    },
  }), "runNow");
}

function update(newOrder) {
  const previous = order && byId("order").dataset.status;
  order = newOrder;
  lostOrder.keep(order);
  longestQueue = Math.max(longestQueue, order.ahead ?? 0);
  render();
  if (previous === "queued" && order.status === "pending_payment") payNotification.notify(orderNo);
  if (previous && previous !== byId("order").dataset.status) byId("headline").focus({ preventScroll: true });
}

/** Neither store has the order. If this tab has seen it, a failure of the shop has lost it. */
async function findMissing(user) {
  poller.stop();
  const onStep = () => showNotice({ tone: "busy", text: t("order.lost") });
  const outcome = await lostOrder.sendAgain(activity, orderNo, onStep).catch((error) => ({ kind: "refused", error }));
  if (session.user() !== user) return;
  if (outcome?.kind === "accepted" || outcome?.kind === "unknown") {
    showNotice(null);
    return startPolling();
  }
  removeOrder();
  setVisible(byId("missing"), !outcome);
  if (outcome) showNotice({ tone: "bad", text: `${t("order.lost_for_good")} ${explain(outcome.error)}` });
}

/** Loads the activity, for the names of its SKUs, its time for refunds, and the server's time. */
async function loadActivity() {
  try {
    const data = localized(await client.activity(activity));
    loadActivity.skuNames = new Map(data.skus.map((sku) => [sku.sku, sku.name]));
    setText(byId("sale-title"), data.title);
    refundSeconds = data.refund_window_seconds ?? Infinity;
  } catch {
    // The order is shown without the names, and the server decides about a refund.
    refundSeconds ??= Infinity;
  }
  if (order) render();
}

function render() {
  setVisible(byId("order"), true);
  const { status } = order;
  const shown = stateToShow();
  const isUnpaid = ["pending_payment", "declined"].includes(shown);
  document.title = titled(t(isUnpaid ? "order.pay_now" : `status.${shown}`));
  byId("order").dataset.status = shown;
  setText(byId("headline"), t(`order.${shown}`));
  setText(byId("explain"), reasonText() ?? t(`order.${shown}_more`));
  byId("facts").replaceChildren(
    ...factRows([
      ["order.item", loadActivity.skuNames?.get(order.sku) ?? order.sku],
      ["order.quantity", count(order.quantity)],
      ["order.amount", money(order.amount, order.currency)],
      ["order.number", wholeParts(order.order_no)],
      ["order.created", moment(order.created_at)],
      ["order.paid_at", order.paid_at && moment(order.paid_at)],
      ["order.refund_until", status === "paid" && refundEnd() && moment(refundEnd())],
    ]),
  );
  if (!["queued", "pending_payment"].includes(status)) addressForm.forgetTyped(orderNo);
  setVisible(byId("queue"), status === "queued");
  setVisible(byId("payment"), isUnpaid);
  setVisible(byId("pay-form"), isUnpaid && !order.checkout_url);
  setVisible(byId("to-payment"), isUnpaid && Boolean(order.checkout_url));
  setText(byId("to-payment"), t(shown === "declined" ? "order.pay_again" : "order.to_payment"));
  if (order.checkout_url) byId("to-payment").href = paymentUrl(order.checkout_url);
  setText(byId("pay"), t("order.pay", { amount: money(order.amount, order.currency) }));
  setVisible(byId("cancel"), isUnpaid);
  renderRefund();
  setVisible(byId("again"), ["cancelled", "expired", "failed", "refunded"].includes(status));
  byId("again").href = `/sale?activity=${encodeURIComponent(activity)}`;
  renderQueue();
  renderTimeLeft();
}

/** The order's status; of one that waits for payment also `confirming` or `declined`. */
function stateToShow() {
  const { status, checkout_url: url, declined_at: declinedAt = null } = order;
  if (status !== "pending_payment") return status;
  // The last payment may have been declined after the buyer was sent back, or by a session that ended: it has no address.
  // An earlier decline says nothing about the payment that the buyer comes from.
  if (hasPaid && url && declinedAt === tab.getItem(DECLINE_SHOWN)) return "confirming";
  isDeclined ||= hasPaid || declinedAt !== null;
  if (!isDeclined) return status;
  if (declinedAt) tab.setItem(DECLINE_SHOWN, declinedAt);
  if (hasPaid) history.replaceState(null, "", `?order_no=${encodeURIComponent(orderNo)}`);
  hasPaid = false;
  return "declined";
}

function reasonText() {
  const key = `reason.${order.reason}`;
  return order.reason && order.status !== "paid" && hasText(key) ? t(key) : null;
}

function factRows(rows) {
  return rows.filter(([, value]) => value).flatMap(([key, value]) => [el("dt", {}, t(key)), el("dd", {}, value)]);
}

/** When the sale stops taking requests for a refund; null if it never does, or never did. */
const refundEnd = () =>
  order.paid_at && refundSeconds > 0 && refundSeconds < Infinity ? Date.parse(order.paid_at) + refundSeconds * 1_000 : null;

function renderRefund() {
  const isOver = refundSeconds === 0 || clock.millisecondsUntil(order.paid_at) + refundSeconds * 1_000 <= 0;
  setVisible(byId("refund"), order.status === "paid" && refundSeconds !== null && !isOver);
}

/** An order number that breaks into lines behind its dot, and within a part only if that is longer than a line. */
function wholeParts(number) {
  const dot = number.lastIndexOf(".") + 1;
  return [number.slice(0, dot), number.slice(dot)].map((part) => el("span", { class: "whole" }, part));
}

function renderQueue() {
  const { ahead = 0, estimated_wait_ms: wait = 0 } = order;
  setText(byId("ahead"), ahead > 0 ? t("order.ahead", { ahead: count(ahead) }) : t("order.next"));
  setText(byId("wait"), wait > 1_000 ? t("order.wait", { time: countdown(wait) }) : "");
  byId("queue-fill").style.setProperty("--share", longestQueue ? 1 - ahead / longestQueue : 1);
}

function renderTimeLeft() {
  if (order) renderRefund();
  if (order?.status !== "pending_payment" || !clock.isSet()) return;
  const left = clock.millisecondsUntil(order.pay_by);
  setText(byId("pay-left"), countdown(left));
  byId("payment").classList.toggle("is-urgent", left < 60_000);
  // The time to pay is over by the server's clock: poll at once, one time for each deadline.
  if (left <= 0 && renderTimeLeft.askedFor !== order.pay_by) {
    renderTimeLeft.askedFor = order.pay_by;
    startPolling();
  }
}

async function pay(event) {
  event.preventDefault();
  const button = byId("pay");
  button.disabled = true;
  showNotice({ tone: "busy", text: t("order.opening") });
  try {
    const token = await shell.signIn();
    if (!token) return;
    const checkout = await withSameUser(client.checkout(orderNo, {
      token,
      address: addressForm.read(),
      language: document.documentElement.lang,
      onWait: (error, until) => showNotice({ tone: "calm", text: explainOrder(error), until }),
    }));
    if (checkout) location.assign(paymentUrl(checkout.checkout_url));
  } catch (error) {
    showError(error);
  } finally {
    button.disabled = false;
  }
}

async function confirmAndSend(send, question, action) {
  if (!(await confirmDialog(t(question), t(action), t("order.keep")))) return;
  const token = await shell.signIn();
  if (!token) return;
  showNotice({ tone: "busy", text: t("order.working") });
  try {
    const changed = await withSameUser(send(orderNo, { token }));
    if (!changed) return;
    showNotice(null);
    if (order.status !== changed.status) leftStatus = order.status;
    update(changed);
    startPolling();
  } catch (error) {
    showError(error);
  }
}

/** Settles as `request`, or resolves to undefined if its user has signed out meanwhile: the next one sees nothing of it. */
async function withSameUser(request) {
  const user = session.user();
  try {
    const answer = await request;
    if (session.user() === user) return answer;
  } catch (error) {
    if (session.user() === user) throw error;
  }
}

function showError(error) {
  if (error.code === "unauthenticated") return void shell.signInAgain();
  showNotice({ tone: isTransient(error) ? "calm" : "bad", text: error.errors?.[0]?.detail ?? explainOrder(error) });
  // The order may have changed since the last poll.
  if (error.code === "state_conflict") startPolling();
}

/**
 * The address of the payment page. Other origins are accepted only with `https:`; anything else becomes `#`, so that a
 * provider cannot inject a `javascript:` address. The sandbox, on our own origin, gets the address to return to in the
 * query; a provider has it in the session.
 */
function paymentUrl(url) {
  const target = new URL(url, location.href);
  if (target.origin === location.origin) {
    target.searchParams.set("return", `/order?order_no=${encodeURIComponent(orderNo)}`);
    return target.href;
  }
  return target.protocol === "https:" ? target.href : "#";
}
