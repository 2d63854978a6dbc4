// The page of one order: place in the queue, payment, and result.

import { client, clock } from "../shared/client.js";
import { byId, confirmDialog, setText, setVisible } from "../shared/dom.js";
import { localized, sentences, t } from "../shared/i18n.js";
import { randomUpTo } from "../shared/poll.js";
import { explain, explainOrder, isTransient } from "../shared/problems.js";
import * as session from "../shared/session.js";
import * as shell from "../shared/shell.js";
import { tab } from "../shared/storage.js";
import * as addressForm from "./address.js";
import * as lostOrder from "./lost-order.js";
import { showNotice } from "./notice.js";
import * as view from "./order-view.js";
import { endOf, orderCode, orderText } from "./order-words.js";
import * as payNotification from "./pay-notification.js";

/** How long the renewal of a sign-in may be overdue until a buyer who waits is asked to sign in again, in milliseconds. */
const RENEWAL_OVERDUE = 30_000;

/** How often a hidden page polls, in milliseconds: its title says when the order can be paid. */
const HIDDEN_INTERVAL = 20_000;

const orderNo = new URLSearchParams(location.search).get("order_no") ?? "";
/** Whether the buyer comes from the payment page, after paying there. */
let hasPaid = new URLSearchParams(location.search).get("payment") === "done";
const activity = orderNo.slice(0, orderNo.lastIndexOf("."));

/** Present if this tab has shown that the buyer waits in the line. */
const HAS_WAITED = `stampede.waited.${orderNo}`;

/** The `declined_at` that this tab has shown last. */
const DECLINE_SHOWN = `stampede.decline.${orderNo}`;

let order = null;
let isDeclined = false;
/** Whether the buyer changes the address of a payment that is open. */
let isChanging = false;
/** Whether a payment is being opened. */
let isBusy = false;
/** The status before the buyer's last command. */
let leftStatus;

/** The activity; undefined until it is loaded, null if it cannot be. */
let sale;
let poller = null;

shell.start();
shell.onSessionChange(start);
shell.keepSignedInWhile(isWaiting);
byId("pay-form").addEventListener("submit", pay);
byId("change-address").addEventListener("click", () => {
  isChanging = !isChanging;
  render();
  if (isChanging) byId("name").focus();
});
byId("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(orderCode(orderNo));
  setText(byId("copied"), t("order.copied"));
  setText(byId("copy"), t("order.copied"));
});
// Only a page of a secure origin may write to the clipboard.
setVisible(byId("copy"), Boolean(navigator.clipboard));
byId("print").addEventListener("click", () => print());
// Not before: the first time that is formatted takes a phone a tenth of a second.
byId("more").addEventListener("toggle", () => order && view.renderDetails(order));
addEventListener("beforeprint", () => {
  byId("more").open = true;
  view.renderDetails(order);
});
byId("sign-in-here").addEventListener("click", () => void shell.signIn());
byId("renew").addEventListener("click", () => void shell.signInAnew());
byId("cancel").addEventListener("click", () =>
  void (isWaiting() ? confirmAndSend(client.leave, "order.leave", "order.stay") : confirmAndSend(client.cancel, "order.cancel")));
byId("refund").addEventListener("click", () => void confirmAndSend(client.refund, "order.refund"));
setInterval(renderTimes, 250);
// The client polls for who waits in the line.
setInterval(() => document.hidden && !isWaiting() && void poller?.runNow(), HIDDEN_INTERVAL);
addEventListener("online", () => void poller?.runNow());
addressForm.watch(orderNo);
payNotification.offer();
// `performance.now()` may stop while the device sleeps: set the clock again from the server's time.
document.addEventListener("visibilitychange", () => document.hidden || void loadSale());
void loadSale();
start();

function start() {
  poller?.stop();
  removeOrder();
  setVisible(byId("missing"), false);
  addressForm.fill(orderNo);
  const isSignedOut = !session.orderCredential(orderNo);
  setVisible(byId("signed-out"), isSignedOut);
  showNotice(null);
  if (isSignedOut) return void shell.askToSignIn();
  startPolling();
}

/** Removes what was shown to the previous user. */
function removeOrder() {
  order = null;
  isChanging = false;
  setVisible(byId("order"), false);
  setVisible(byId("bar"), false);
  for (const id of ["facts", "more-facts", "delivery-text"]) byId(id).replaceChildren();
  byId("to-payment").removeAttribute("href");
}

function startPolling() {
  poller?.stop();
  const user = session.user();
  poller = client.pollOrder(orderNo, {
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
  });
}

function update(newOrder) {
  const previous = order && byId("order").dataset.status;
  order = newOrder;
  lostOrder.keep(order);
  if (isWaiting()) tab.setItem(HAS_WAITED, "");
  if (!["queued", "pending_payment"].includes(order.status)) addressForm.forgetTyped(orderNo);
  render();
  if (["waiting", "queued"].includes(previous) && order.status === "pending_payment") payNotification.notify(orderNo);
  if (previous && previous !== byId("order").dataset.status) byId("headline").focus({ preventScroll: true });
}

/** Neither store has the order. If this tab has seen it, a failure of the shop has lost it. */
async function findMissing(user) {
  poller.stop();
  const onStep = () => showNotice({ tone: "busy", text: t("order.lost") });
  const outcome = await lostOrder.sendAgain(activity, orderNo, onStep).catch((error) => ({ kind: "refused", error }));
  if (session.user() !== user) return;
  if (["accepted", "waiting", "unknown"].includes(outcome?.kind)) {
    showNotice(null);
    return startPolling();
  }
  removeOrder();
  setVisible(byId("missing"), !outcome);
  if (outcome) showNotice({ tone: "bad", text: sentences(t("order.lost_for_good"), explain(outcome.error)) });
}

/** Loads the activity, for its texts, what it says about addresses and refunds, and the server's time. */
async function loadSale() {
  try {
    sale = localized(await client.activity(activity));
  } catch (error) {
    // Until it is there, the order is shown without the texts, and the server decides about the rest.
    if (!sale && isTransient(error)) setTimeout(() => void loadSale(), 2_000 + randomUpTo(3_000));
    sale ??= null;
  }
  if (order) render();
}

/** Whether the buyer waits in the line. */
function isWaiting() {
  return order?.status === "waiting";
}

/** How the sale asks for the address; undefined until it is known. */
const checkoutKind = () => (sale === undefined ? undefined : (sale?.checkout ?? "form"));

function render() {
  view.render({
    order, sale, isChanging, isBusy, paymentUrl, shown: stateToShow(), hasWaited: tab.getItem(HAS_WAITED) !== null, checkout: checkoutKind(), refundUntil: refundEnd(),
    saleUrl: `/sale?activity=${encodeURIComponent(activity)}`,
  });
  setText(byId("cancel"), t(isWaiting() ? "order.leave" : "order.cancel"));
  setText(byId("refund"), orderText("order.refund", order));
  renderTimes();
}

/** The order's status; of one that waits for payment also `confirming` or `declined`; of a wait that ended, how. */
function stateToShow() {
  const { status, checkout_url: url, declined_at: declinedAt = null } = order;
  if (status !== "pending_payment") return endOf(order);
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

/** When the sale stops taking requests for a refund of a paid order; null if it never does, or never did. */
function refundEnd() {
  const seconds = sale?.refund_window_seconds;
  return order.status === "paid" && seconds > 0 ? Date.parse(order.paid_at) + seconds * 1_000 : null;
}

/** Renders what changes with the clock. */
function renderTimes() {
  if (!order) return;
  const shown = byId("order").dataset.status;
  view.renderTimes({ order, shown, checkout: checkoutKind() });
  setVisible(byId("cancel"), ["waiting", "pending_payment", "declined"].includes(shown));
  setVisible(byId("renewal"), isWaiting() && (!session.token() || session.millisecondsUntilRenewal() < -RENEWAL_OVERDUE));
  const isOver = sale?.refund_window_seconds === 0 || (refundEnd() ?? Infinity) <= clock.now();
  setVisible(byId("refund"), order.status === "paid" && sale !== undefined && !isOver);
  // The time to pay is over by the server's clock: poll at once, one time for each deadline.
  const isDue = order.status === "pending_payment" && clock.isSet() && clock.millisecondsUntil(order.pay_by) <= 0;
  if (isDue && renderTimes.askedFor !== order.pay_by) {
    renderTimes.askedFor = order.pay_by;
    startPolling();
  }
}

async function pay(event) {
  event.preventDefault();
  setBusy(true);
  showNotice({ tone: "busy", text: orderText("order.opening", order) });
  try {
    const token = await shell.signIn();
    if (!token) return showNotice(null);
    const address = checkoutKind() === "form" ? addressForm.read() : undefined;
    const opened = await withSameUser(client.checkout(orderNo, {
      token,
      address,
      language: document.documentElement.lang,
      onWait: (error, until) => showNotice({ tone: "calm", text: explainOrder(error), until }),
    }));
    if (!opened) return;
    if (address) addressForm.noteSent(orderNo, address);
    // A free order is paid by now.
    if (order.amount > 0) return location.assign(paymentUrl(opened.checkout_url));
    showNotice(null);
    startPolling();
  } catch (error) {
    showError(error);
  } finally {
    setBusy(false);
  }
}

function setBusy(value) {
  isBusy = value;
  if (order) render();
}

async function confirmAndSend(send, action, no = "order.keep") {
  const { status } = order;
  if (!(await confirmDialog(orderText(`${action}_ask`, order), orderText(action, order), t(no), "no"))) return;
  // A unit may have been offered meanwhile.
  if (order?.status !== status) return;
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
