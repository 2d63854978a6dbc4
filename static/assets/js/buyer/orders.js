// The page with the buyer's own orders, newest first.

import { client } from "../shared/client.js";
import { byId, el, picture, setText, setVisible } from "../shared/dom.js";
import { moment, money } from "../shared/format.js";
import { localized, t } from "../shared/i18n.js";
import { explainOrder } from "../shared/problems.js";
import * as session from "../shared/session.js";
import * as shell from "../shared/shell.js";

const PAGE_SIZE = 20;

let lastOrderNo = null;

shell.start();
shell.onSessionChange(reload);
byId("more").addEventListener("click", () => void loadMore());
reload();

function reload() {
  lastOrderNo = null;
  byId("orders").replaceChildren();
  setVisible(byId("more"), false);
  if (session.token()) return void loadMore();
  setText(byId("state"), t("orders.signed_out"));
  void shell.askToSignIn();
}

async function loadMore() {
  byId("more").disabled = true;
  setText(byId("state"), t("loading"));
  const [token, user] = [session.token(), session.user()];
  try {
    const data = await client.orders({ before: lastOrderNo, limit: PAGE_SIZE }, { token });
    if (session.user() !== user) return;
    byId("orders").append(...data.map(row));
    lastOrderNo = data.at(-1)?.order_no ?? lastOrderNo;
    setText(byId("more"), t("orders.more"));
    setVisible(byId("more"), data.length === PAGE_SIZE);
    setText(byId("state"), byId("orders").childElementCount ? "" : t("orders.none"));
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

const skusByActivity = new Map();

/** The SKU of an order, with its name and picture; undefined if it cannot be loaded. */
async function loadSku({ order_no: orderNo, sku }) {
  const activity = orderNo.slice(0, orderNo.lastIndexOf("."));
  if (!skusByActivity.has(activity)) {
    skusByActivity.set(activity, client.activity(activity).then((data) => localized(data).skus, () => []));
  }
  return (await skusByActivity.get(activity)).find((known) => known.sku === sku);
}

function row(order) {
  const image = el("span", {}, picture("", order.sku, "small"));
  const item = el("strong", {}, `${order.quantity} × ${order.sku}`);
  void loadSku(order).then((sku) => {
    if (!sku) return;
    setText(item, `${order.quantity} × ${sku.name}`);
    image.replaceChildren(picture(sku.image, sku.name, "small"));
  });
  return el(
    "li",
    {},
    el(
      "a",
      {
        class: "card order-link", testid: "order-link",
        href: `/order?order_no=${encodeURIComponent(order.order_no)}`,
      },
      image,
      el("span", { class: "sale-text" }, item, el("span", { class: "quiet" }, moment(order.created_at))),
      el("span", {}, money(order.amount, order.currency)),
      el("span", { class: "chip", "data-status": order.status }, t(`status.${order.status}`)),
    ),
  );
}
