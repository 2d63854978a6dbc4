// The page with the buyer's own orders, newest first. Those that can change are polled.

import { client, clock } from "../shared/client.js";
import { byId, el, picture, setText, setVisible } from "../shared/dom.js";
import { dayAndTime, shortCountdown } from "../shared/format.js";
import { localized, t } from "../shared/i18n.js";
import { explainOrder } from "../shared/problems.js";
import * as session from "../shared/session.js";
import * as shell from "../shared/shell.js";
import { amountText, endOf, itemName, orderText, placeText } from "./order-words.js";

const PAGE_SIZE = 20;

/** The statuses that change without an action of the buyer. */
const CHANGING = ["waiting", "queued", "pending_payment", "refunding"];

/** The `before` of the next page. */
let next = null;
/** The rows of the page: `{order, poller, renderTimeLeft}`; `poller` is null once the order does not change. */
let rows = [];

shell.start();
shell.onSessionChange(reload);
byId("more").addEventListener("click", () => void loadMore());
byId("sign-in-here").addEventListener("click", () => void shell.signIn());
addEventListener("online", () => rows.forEach(({ poller }) => void poller?.runNow()));
setInterval(() => rows.forEach((row) => row.renderTimeLeft()), 250);
// `performance.now()` may stop while the device sleeps: set the clock again from the server's time.
document.addEventListener("visibilitychange", () => {
  const changing = document.hidden ? [] : rows.filter(({ poller }) => poller);
  for (const activity of new Set(changing.map(({ order }) => activityOf(order)))) client.activity(activity).catch(() => {});
});
reload();

function reload() {
  next = null;
  for (const { poller } of rows) poller?.stop();
  rows = [];
  byId("orders").replaceChildren();
  setVisible(byId("unread"), false);
  for (const id of ["more", "to-sales"]) setVisible(byId(id), false);
  setVisible(byId("sign-in-here"), !session.token());
  byId("rest").className = "empty";
  if (session.token()) return void loadMore();
  setText(byId("state"), t("orders.signed_out"));
  void shell.askToSignIn();
}

async function loadMore() {
  byId("more").disabled = true;
  setText(byId("state"), t("loading"));
  const [token, user] = [session.token(), session.user()];
  try {
    const { data, unread } = await client.readOrders({ before: next, limit: PAGE_SIZE }, { token });
    if (session.user() !== user) return;
    byId("orders").append(...data.items.map(createRow));
    byId("rest").className = byId("orders").childElementCount ? "" : "empty";
    next = data.next;
    setText(byId("more"), t("orders.more"));
    setVisible(byId("more"), next !== null);
    setText(byId("unread"), t("orders.unread", { sales: unread.join(", ") }));
    setVisible(byId("unread"), unread.length > 0);
    const isEmpty = !byId("orders").childElementCount && !unread.length;
    setText(byId("state"), isEmpty ? t("orders.none") : "");
    setVisible(byId("to-sales"), isEmpty);
  } catch (error) {
    if (session.user() !== user) return;
    setText(byId("state"), explainOrder(error));
    setText(byId("more"), t("orders.again"));
    setVisible(byId("more"), true);
    if (error.code === "unauthenticated") void shell.signInAgain();
  } finally {
    byId("more").disabled = false;
  }
}

const activityOf = ({ order_no: orderNo }) => orderNo.slice(0, orderNo.lastIndexOf("."));

const skusByActivity = new Map();

/** The SKU of an order, with its name and picture; undefined if it cannot be loaded. */
async function loadSku(order) {
  const activity = activityOf(order);
  if (!skusByActivity.has(activity)) {
    skusByActivity.set(activity, client.activity(activity).then((data) => localized(data).skus, () => []));
  }
  return (await skusByActivity.get(activity)).find((known) => known.sku === order.sku);
}

/** Creates the element of an order, and keeps it up to date. */
function createRow(order) {
  const image = el("span", {}, picture("", order.sku));
  const item = el("strong", {}, `${order.quantity} × ${order.sku}`);
  void loadSku(order).then((sku) => {
    if (!sku) return;
    setText(item, `${order.quantity} × ${itemName(sku)}`);
    image.replaceChildren(picture(sku.image, sku.name));
  });
  const href = `/order?order_no=${encodeURIComponent(order.order_no)}`;
  const chip = el("span", { class: "chip" });
  const more = el("span", { class: "quiet" });
  const pay = el("a", { class: "button primary wide", href, testid: "order-pay" });
  const row = { order, poller: null, renderTimeLeft };
  render();
  if (CHANGING.includes(order.status)) follow(row, render);
  rows.push(row);

  function render() {
    chip.dataset.status = row.order.status;
    setText(chip, orderText(`status.${endOf(row.order)}`, row.order));
    setText(more, (row.order.status === "waiting" && placeText(row.order)) || dayAndTime(order.created_at));
    renderTimeLeft();
  }

  function renderTimeLeft() {
    const left = clock.isSet() ? clock.millisecondsUntil(row.order.pay_by) : Infinity;
    setVisible(pay, row.order.status === "pending_payment" && left > 0);
    const key = left < Infinity ? "orders.pay" : "order.pay_now";
    setText(pay, orderText(key, row.order, { left: shortCountdown(left) }));
  }

  return el(
    "li",
    { class: "card order-row" },
    el(
      "a",
      { class: "order-link", href, testid: "order-link" },
      image,
      el("span", { class: "order-text" }, item, more),
      el("span", { class: "order-figures" }, el("strong", {}, amountText(order)), chip),
    ),
    pay,
  );
}

/** Polls the order of a row until it does not change any more. */
function follow(row, render) {
  const user = session.user();
  row.poller = client.pollOrder(row.order.order_no, {
    token: () => session.orderCredential(row.order.order_no),
    onChange(order) {
      if (session.user() !== user) return stop();
      row.order = order;
      render();
      if (!CHANGING.includes(order.status)) stop();
      setText(byId("state"), "");
    },
    onError(error) {
      if (session.user() !== user) return stop();
      if (error.code === "unauthenticated") return void shell.signInAgain();
      setText(byId("state"), explainOrder(error));
    },
  });

  function stop() {
    row.poller.stop();
    row.poller = null;
  }
}
