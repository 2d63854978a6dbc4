// The page of a sale: its state and what stops it stay at the top; figures, stock, orders, settings, audit and changes follow.

import { byId, el, picture, setText, setVisible } from "../shared/dom.js";
import { inAnyLanguage, localized } from "../shared/i18n.js";
import { changeList } from "./change-words.js";
import { every, open, setTitle, showWorker } from "./frame.js";
import { audit } from "./live/audit.js";
import { makeCharts, marksOf } from "./live/charts.js";
import { codeActions } from "./live/codes.js";
import { showCounts } from "./live/counts.js";
import { createHistory } from "./live/history.js";
import { rebuild } from "./live/rebuild.js";
import { rotateStartKey } from "./live/start-key.js";
import { figureHeads, makeStockTable } from "./live/stock-table.js";
import { makeTiles } from "./live/tiles.js";
import { orderRow } from "./order-row.js";
import { button, chip, facts, section, show } from "./parts.js";
import { activityPath, explain, read, send } from "./requests.js";
import { ACTIONS, changeState, checklist, closeSale, deleteSale, settingsOf } from "./sale-actions.js";
import { clockText, stateOf, stateText, sumOf } from "./sale-states.js";
import { t } from "./words.js";

const STATS_INTERVAL = 1_000;
const REFRESH_INTERVAL = 3_000;
/** How many of the newest orders the page has. */
const ORDERS = 8;
/** How many of the newest changes. */
const CHANGES = 20;

const id = new URLSearchParams(location.search).get("id") ?? "";

/** The activity and its entity tag; the statistics and changes that were loaded last. */
let [sale, etag, stats, changes] = [null, null, null, []];
/** What shows the statistics, once the sale has some. */
let views = null;

open("sales", (main) => {
  main.append(...page());
  every(REFRESH_INTERVAL, async () => {
    await load();
    await loadRest();
  }, showTrouble);
  every(STATS_INTERVAL, loadStats);
  setInterval(render, 500);
});

function page() {
  const wide = (...children) => el("div", { class: "columns" }, ...children);
  return [
    el("a", { class: "back", href: "/admin" }, t("back.sales")),
    el("div", { class: "sale-head", id: "head", hidden: true },
      el("span", { id: "head-picture" }),
      el("div", { class: "sale-name" }, el("h1", { id: "name", tabindex: -1 }),
        el("p", {}, el("span", { id: "state", testid: "state" }), " ", el("span", { id: "clock", class: "phase", testid: "live-phase" }))),
      el("div", { id: "actions", class: "head-actions" })),
    el("p", { id: "trouble", class: "trouble", role: "status", testid: "trouble" }),
    el("div", { id: "draft", hidden: true }, section(t("checklist"), { id: "checklist" }, el("ul", { id: "checks", class: "checks card", testid: "checks" }))),
    el("div", { id: "live", testid: "live", hidden: true },
      el("div", { id: "tiles", class: "tiles" }),
      el("div", { id: "charts", class: "charts", testid: "charts" }),
      wide(
        section(t("stock"), { id: "stock-section" }, el("div", { class: "card scroll" }, el("table", { class: "rows" },
          el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("sku")),
            figureHeads(),
            el("th", { scope: "col" }, el("span", { class: "unseen" }, t("actions"))))),
          el("tbody", { id: "stock", testid: "stock" })))),
        section(t("now"), { id: "now" }, el("div", { class: "card" }, el("dl", { id: "rates", class: "facts" }),
          el("h3", {}, t("refusals")), el("dl", { id: "refusals", class: "facts" }),
          el("details", {}, el("summary", {}, t("refusals.what")), el("p", { class: "quiet" }, t("refusals.note")))))),
      section(t("nav.orders"), { id: "orders-section", beside: el("a", { href: `/admin/orders?${new URLSearchParams({ activity: id })}`, testid: "all-orders" }, t("orders.all")) },
        el("div", { class: "card" }, el("dl", { id: "orders-by-status", class: "facts counts" }),
          el("ul", { id: "orders", class: "order-rows", testid: "orders" }), el("p", { id: "no-orders", class: "quiet", hidden: true }, t("orders.none"))))),
    wide(
      section(t("settings"), { id: "settings-section", beside: el("a", { id: "edit-settings", href: "#" }, t("edit")) }, el("div", { id: "settings", class: "card" })),
      section(t("audit"), { id: "audit-section" }, el("div", { class: "card" },
        el("p", {}, t("audit.what")), button("audit", t("audit.run"), ({ target }) => void audit(target, id)),
        el("div", { id: "audit-result", role: "status", testid: "audit-result" })))),
    section(t("codes"), { id: "codes-section", hidden: true }, el("div", { class: "card" }, codeActions(id))),
    section(t("nav.changes"), { id: "changes-section", beside: el("a", { href: `/admin/changes?${new URLSearchParams({ activity: id })}` }, t("changes.all")) },
      el("ul", { id: "changes", class: "changes card", testid: "changes" })),
    section(t("danger"), { id: "danger" }, el("div", { id: "dangers", class: "card dangers" })),
  ];
}

const showTrouble = (error) => setText(byId("trouble"), error ? explain(error) : "");

async function load() {
  const answer = await read(activityPath(id), etag);
  if (!answer) return;
  ({ etag, data: sale } = answer);
  setTitle(localized(sale).title);
  render();
}

async function loadStats() {
  if (!sale) await load();
  if (sale.state === "draft") return;
  stats = await send("GET", activityPath(id, "/stats"));
  views ??= await makeViews();
  const samples = views.history.add(stats);
  const sums = sumOf(stats.skus);
  views.tiles.update(samples[samples.length - 1], { ...sums, revenue: stats.revenue, offers: hasLine() && stats.offers });
  views.chart.update(samples, marksOf(sale, changes));
  views.stock.update(stats.skus, hasLine());
  showCounts("orders-by-status", "status", stats.orders);
  showCounts("refusals", "refused", stats.refusals);
  showWorker("writer", ...(stats.queue > 0 ? ["calm", t("writer.busy", { number: stats.queue })] : ["good", t("writer.good")]));
  render();
}

const hasLine = () => sale.line?.mode === "waitlist";

async function makeViews() {
  // Without what was recorded, the chart begins now.
  const recorded = await send("GET", activityPath(id, "/history")).catch(() => ({ items: [] }));
  return { history: createHistory(recorded.items.reverse()), tiles: makeTiles(), chart: makeCharts(), stock: makeStockTable(id) };
}

async function loadRest() {
  ({ items: changes } = await send("GET", `/changes?${new URLSearchParams({ activity: id, limit: CHANGES })}`));
  show(byId("changes"), changes, () => (changes.length ? changeList(changes) : el("li", { class: "quiet" }, t("none"))));
  if (sale.state === "draft") return;
  const { items: orders } = await send("GET", activityPath(id, `/orders?limit=${ORDERS}`));
  show(byId("orders"), orders, () => orders.map(orderRow));
  setVisible(byId("no-orders"), orders.length === 0);
}

function render() {
  if (!sale) return;
  const figures = stats && sumOf(stats.skus);
  const [state, text, shown] = [stateOf(sale, figures), stateText(sale, figures), localized(sale)];
  setVisible(byId("head"), true);
  setVisible(byId("live"), sale.state !== "draft");
  setVisible(byId("draft"), sale.state === "draft");
  setVisible(byId("audit-section"), sale.state !== "draft");
  setVisible(byId("codes-section"), Boolean(sale.eligibility.codes));
  show(byId("head-picture"), shown.image, () => picture(shown.image || sale.skus[0]?.image, shown.title, "small"));
  setText(byId("name"), shown.title);
  show(byId("state"), [state, text], () => [chip(state, text), sale.rehearsal && [" ", chip("draft", t("rehearsal"), { testid: "rehearsal" })]]);
  setText(byId("clock"), clockText(sale));
  show(byId("actions"), [sale.state, state], () => headActions(state));
  show(byId("settings"), sale, () => [
    sale.announcement && el("p", { class: "calm" }, inAnyLanguage(sale.announcement)), facts(settingsOf(sale)),
  ]);
  setVisible(byId("now"), state !== "ended");
  show(byId("dangers"), [sale.state, state], () => dangers(state));
  byId("edit-settings").href = editLink("id");
  if (sale.state === "draft") void checklist(sale).then((checks) => show(byId("checks"), checks, () => checks.map(({ tone, line }) =>
    el("li", { "data-tone": tone }, line))));
}

const editLink = (name) => `/admin/edit?${new URLSearchParams({ [name]: id })}`;

const link = (testid, href, text, properties = {}) => el("a", { class: "button", href, testid, ...properties }, text);

/** What an operator does with a sale; the action of its state comes first. */
const headActions = (state) => [
  state !== "ended" && ACTIONS[sale.state]?.map((action) =>
    button(action, t(`do.${action}`), ({ target }) => void changeState(target, sale, action).then(load), "primary")),
  // A new tab gets a copy of this tab's token, because this page is its opener.
  sale.state === "draft"
    ? link("preview", `/admin/preview?activity=${encodeURIComponent(id)}`, t("preview"), { target: "_blank", rel: "opener" })
    : link("page", `/sale?activity=${encodeURIComponent(id)}`, t("page"), { target: "_blank" }),
  link("edit", editLink("id"), t("edit")),
  link("copy", editLink("copy"), t("copy")),
];

const danger = (name, onclick) => el("div", { class: "rare" },
  el("div", {}, el("h3", {}, t(name)), el("p", { class: "quiet" }, t(`${name}.what`))), button(name, t(`${name}.open`), onclick, "danger"));

const dangers = (state) => (sale.state === "draft"
  ? danger("delete", ({ target }) => void deleteSale(target, id, "delete.ask"))
  : [
    state !== "ended" && danger("rotate", ({ target }) => void rotateStartKey(target, id)),
    danger("rebuild", ({ target }) => void rebuild(target, id)),
    sale.state === "closed" && sale.rehearsal && danger("erase", ({ target }) => void deleteSale(target, id, "erase.ask")),
    state !== "ended" && danger("close", ({ target }) => void closeSale(target, sale, sumOf(stats?.skus ?? []).waiting).then(load)),
  ]);
