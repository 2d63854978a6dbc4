// The visitor's own orders, newest first.

import * as api from "../shared/api.js";
import { byId, el, say, show } from "../shared/dom.js";
import { moment, money } from "../shared/format.js";
import { t } from "../shared/i18n.js";
import { explain } from "../shared/problems.js";
import * as session from "../shared/session.js";
import * as shell from "../shared/shell.js";

const PAGE = 20;

let last = null;

shell.start();
shell.onSession(restart);
byId("more").addEventListener("click", () => void load());
restart();

function restart() {
  last = null;
  byId("orders").replaceChildren();
  show(byId("more"), false);
  if (session.token()) return void load();
  say(byId("state"), t("orders.signed_out"));
  void shell.signIn();
}

async function load() {
  byId("more").disabled = true;
  say(byId("state"), t("loading"));
  const token = session.token();
  try {
    const { data } = await api.orders(token, { before: last, limit: PAGE });
    if (session.token() !== token) return;
    byId("orders").append(...data.map(row));
    last = data.at(-1)?.order_no ?? last;
    show(byId("more"), data.length === PAGE);
    say(byId("state"), byId("orders").childElementCount ? "" : t("orders.none"));
  } catch (error) {
    if (session.token() !== token) return;
    say(byId("state"), explain(error));
    show(byId("more"), true);
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
