// Finds the orders of a buyer, by the code that the buyer reads out, the user's name, or the order's number.

import { byId, el, setText } from "../shared/dom.js";
import { open } from "./frame.js";
import { actionsOf } from "./order-actions.js";
import { entryRow, orderLink, orderRow } from "./order-row.js";
import { pagedList } from "./paged-list.js";
import { show } from "./parts.js";
import { explain, send } from "./requests.js";
import { t } from "./words.js";

const CODE = /^[0-9A-Z]{4}[- ]?[0-9A-Z]{4}$/i;
const STATUSES = ["pending_payment", "paid", "refunding", "refunded", "cancelled", "expired", "failed"];

const query = new URLSearchParams(location.search);
const [text, activity, status] = ["q", "activity", "status"].map((name) => query.get(name) ?? "");

open("orders", (main) => {
  main.append(
    el("h1", {}, t("nav.orders")),
    el("form", { class: "card lookup", testid: "lookup", role: "search", method: "get" },
      el("p", { class: "field" }, el("label", { for: "q" }, t("lookup")),
        el("input", { id: "q", name: "q", type: "search", value: text, autocomplete: "off", spellcheck: "false", testid: "lookup-order" }),
        el("span", { class: "hint" }, t("lookup.hint"))),
      el("p", { class: "field small" }, el("label", { for: "activity" }, t("lookup.sale")), el("input", { id: "activity", name: "activity", value: activity, autocomplete: "off" })),
      el("p", { class: "field small" }, el("label", { for: "status" }, t("lookup.status")),
        el("select", { id: "status", name: "status" }, ["", ...STATUSES].map((value) =>
          el("option", { value, selected: value === status }, value ? t(`status.${value}`) : t("lookup.any"))))),
      el("p", { class: "actions" }, el("button", { class: "button primary", testid: "lookup-show" }, t("lookup.show")))),
    el("div", { id: "found", testid: "lookup-result", "aria-live": "polite" }),
  );
  if (text) return void find();
  byId("q").focus();
  if (activity) listAll();
  else if (status) setText(byId("found"), t("lookup.needs_sale"));
});

/** The orders of a sale, newest first. */
function listAll() {
  const path = status ? `/orders?${new URLSearchParams({ activity, status })}` : `/activities/${encodeURIComponent(activity)}/orders`;
  const list = pagedList("orders", { path, pageSize: 50, make: (orders) => orders.map(orderRow), properties: { class: "order-rows card" }, empty: t("orders.none") });
  byId("found").append(list.node);
  list.follow();
}

async function find() {
  const words = text.trim();
  if (words.includes(".")) return location.replace(orderLink(words));
  const filters = Object.entries({ activity, status }).filter(([, value]) => value);
  const search = (name, value) => send("GET", `/orders?${new URLSearchParams([[name, value], ...filters])}`);
  const searches = [search("user", text), ...(CODE.test(words) ? [search("code", words)] : [])];
  try {
    const [waiting, ...found] = await Promise.all([status ? [] : findWaiting(), ...searches]);
    const orders = [...new Map(found.flatMap(({ items }) => items).map((order) => [order.order_no, order])).values()];
    show(byId("found"), [waiting, orders], () => (waiting.length + orders.length
      ? el("ul", { class: "order-rows card" }, waiting.map(waitingRow), orders.map(orderRow))
      : el("p", { class: "empty quiet" }, t("lookup.none", { text: words }))));
  } catch (error) {
    setText(byId("found"), explain(error));
  }
}

/** Where the user waits in a line: the orders that are found do not have it. */
async function findWaiting() {
  const { line } = await send("GET", `/users/${encodeURIComponent(text)}?limit=1`).catch((error) => {
    // The role `fulfil` reads orders only.
    if (error.code !== "forbidden") throw error;
    return { line: [] };
  });
  return line.filter((entry) => entry.status === "waiting" && (!activity || entry.activity === activity));
}

function waitingRow(entry) {
  // An entry does not name its user.
  const shown = { user: text, ...entry };
  const row = entryRow(shown, actionsOf(entry, (ended) => ended && row.replaceWith(entryRow({ ...shown, ...ended }))));
  return row;
}
