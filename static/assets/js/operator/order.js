// The page of an order: what is to be done for its buyer, what happened, and what the stores know.

import { byId, el, setText, setVisible } from "../shared/dom.js";
import { exactMoment, money, priceText } from "../shared/format.js";
import { actionText } from "./change-words.js";
import { every, open, setTitle } from "./frame.js";
import { reasonText } from "./inbox-items.js";
import { actionsOf } from "./order-actions.js";
import { orderChip, orderCode } from "./order-row.js";
import { facts, section, show } from "./parts.js";
import { explain, send } from "./requests.js";
import { hasText, t } from "./words.js";

const REFRESH_INTERVAL = 3_000;
/** The lines of an address of our own form, as one writes them. */
const LINES = ["name", "street", "postal_code", "city", "state", "country"];

const number = new URLSearchParams(location.search).get("no") ?? "";

open("orders", (main) => {
  main.append(
    el("a", { class: "back", href: "/admin/orders" }, t("back.orders")),
    el("div", { class: "bar" }, el("h1", { id: "name" }), el("div", { id: "actions", class: "head-actions" })),
    el("p", { id: "trouble", class: "trouble", role: "status", testid: "trouble" }),
    el("div", { id: "order", class: "columns", testid: "order", hidden: true },
      el("div", { id: "facts", class: "card" }),
      section(t("timeline"), { id: "timeline-section" }, el("ol", { id: "timeline", class: "timeline card", testid: "timeline" }))),
    el("details", { id: "behind", hidden: true, class: "behind" }, el("summary", {}, t("order.behind")), el("div", { id: "documents", class: "card" })),
  );
  every(REFRESH_INTERVAL, load, (error) => setText(byId("trouble"), error ? explain(error) : ""));
});

async function load() {
  const order = await send("GET", `/orders/${encodeURIComponent(number)}`);
  setTitle(orderCode(order.order_no));
  for (const id of ["order", "behind"]) setVisible(byId(id), true);
  show(byId("name"), order, () => [el("span", { class: "code" }, t("order.title", { code: orderCode(order.order_no) })), " ", orderChip(order)]);
  show(byId("actions"), order, () => actionsOf(order, load));
  show(byId("facts"), order, () => facts(factsOf(order)));
  show(byId("timeline"), order, () => timelineOf(order).map(([at, text, detail]) => el("li", {},
    el("time", { datetime: at, class: "quiet" }, at ? exactMoment(at) : "–"), el("span", {}, text, detail && el("span", { class: "quiet exact" }, ` ${detail}`)))));
  show(byId("documents"), order, () => documentsOf(order));
}

const link = (href, text) => el("a", { href }, text);

function factsOf(order) {
  const { order_no: orderNo, status, user, quantity, sku, amount, currency, payment, reason, address } = order;
  const sale = orderNo.split(".")[0];
  const time = (text) => text && exactMoment(text);
  return [
    [t("order.buyer"), el("span", {}, el("span", { class: "exact" }, user), " ", link(`/admin/buyers?${new URLSearchParams({ user })}`, t("order.about")))],
    [t("order.item"), `${quantity} × ${sku}`],
    [t("order.sale"), link(`/admin/sale?${new URLSearchParams({ id: sale })}`, sale)],
    [t("order.amount"), priceText(amount, currency)],
    [t("order.refunded"), order.refunded_amount > 0 && money(order.refunded_amount, currency)],
    [t("order.pay_by"), status === "pending_payment" && time(order.pay_by)],
    [t("order.reason"), reasonText(reason)],
    [t("order.address"), address && describeAddress(address)],
    [t("order.number"), el("span", { class: "exact" }, orderNo)],
    [t("order.payment"), payment],
  ];
}

const describeAddress = (address) =>
  [...new Set([...LINES, ...Object.keys(address)])].map((name) => address[name]).filter(Boolean).join(", ");

/** Why a wait in the line ended without an order. */
const WAIT_ENDS = ["left_line", "sale_ended", "removed_by_operator", "banned", "limit_reached"];

const isWait = ({ status, reason }) => status === "waiting" || WAIT_ENDS.includes(reason);

/** What happened, oldest first: `[time, text, detail]`; some times are no longer known. */
const timelineOf = ({ timeline, currency, order_no: orderNo, ...order }) => timeline.map(({ at, what, reason, type, outcome, amount, action, by }) => [
  at,
  what === "operator" ? `${by} ${actionText(action, orderCode(orderNo))}` : t(isWait(order) && hasText(`timeline.${what}.wait`) ? `timeline.${what}.wait` : `timeline.${what}`),
  [type, amount > 0 && money(amount, currency), reasonText(outcome || reason)].filter(Boolean).join(" · "),
]);

/** What the stores know: payment callbacks, refunds, and events to the shop. */
const documentsOf = ({ callbacks, refunds, events }) => [
  list(t("order.callbacks"), callbacks, ({ type, received_at: at, outcome, other_session: otherSession }) => [
    exactMoment(at), type, outcome, otherSession && t("order.other_session"),
  ]),
  list(t("order.refunds"), refunds, ({ state, attempts, last_error: error, ...refund }) => [
    money(refund.amount, refund.currency), refund.returned > 0 && t("order.in_parts", { amount: money(refund.returned, refund.currency) }), state,
    t("order.attempts", { attempts }), error,
  ]),
  list(t("order.events"), events, ({ happened_at: at, type, state, last_error: error }) => [exactMoment(at), type, state, error]),
];

const list = (title, items, toTexts) => [
  el("h3", {}, title),
  items.length ? el("ul", {}, items.map((item) => el("li", {}, toTexts(item).filter(Boolean).join(" · ")))) : el("p", { class: "quiet" }, t("none")),
];
