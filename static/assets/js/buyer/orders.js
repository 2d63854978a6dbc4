// The page with the buyer's own orders, newest first.

import * as api from "../shared/api.js";
import { byId, el, setText, setVisible } from "../shared/dom.js";
import { moment, money } from "../shared/format.js";
import { t } from "../shared/i18n.js";
import { explain } from "../shared/problems.js";
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
  void shell.signIn();
}

async function loadMore() {
  byId("more").disabled = true;
  setText(byId("state"), t("loading"));
  const token = session.token();
  try {
    const { data } = await api.orders(token, { before: lastOrderNo, limit: PAGE_SIZE });
    if (session.token() !== token) return;
    byId("orders").append(...data.map(row));
    lastOrderNo = data.at(-1)?.order_no ?? lastOrderNo;
    setVisible(byId("more"), data.length === PAGE_SIZE);
    setText(byId("state"), byId("orders").childElementCount ? "" : t("orders.none"));
  } catch (error) {
    if (session.token() !== token) return;
    setText(byId("state"), explain(error));
    setVisible(byId("more"), true);
    if (error.code === "unauthenticated") void shell.signInAgain();
  } finally {
    byId("more").disabled = false;
  }
}

const row = (order) =>
  el(
    "li",
    {},
    el(
      "a",
      {
        class: "card order-link", testid: "order-link",
        href: `/order?order_no=${encodeURIComponent(order.order_no)}`,
      },
      el(
        "span",
        { class: "sale-text" },
        el("strong", {}, `${order.quantity} × ${order.sku}`),
        el("span", { class: "quiet" }, moment(order.created_at)),
      ),
      el("span", {}, money(order.amount, order.currency)),
      el("span", { class: "chip", "data-status": order.status }, t(`status.${order.status}`)),
    ),
  );
