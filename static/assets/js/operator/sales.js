// The list of sales: each with its state in words, how much is sold, and what came in.

import { byId, el, picture, setText, setVisible } from "../shared/dom.js";
import { period } from "../shared/format.js";
import { localized } from "../shared/i18n.js";
import { every, open } from "./frame.js";
import { chip, meter, show } from "./parts.js";
import { explain, read, send } from "./requests.js";
import { revenueText, shareSold, soldText, stateOf, stateText } from "./sale-states.js";
import { t } from "./words.js";

/** How often the list is loaded again, in milliseconds. */
const REFRESH_INTERVAL = 3_000;

/** The filters, with the states that each shows. */
const FILTERS = {
  all: null, now: ["open", "sold_out", "paused"], scheduled: ["scheduled"], draft: ["draft"], ended: ["ended"],
};

/** The entity tag of the page that is shown; the sales of that page and of those behind it; the link to the next one. */
let [etag, sales, older, next] = [null, [], [], null];
/** The row of each sale: they stay, so that a link keeps the focus. */
const rows = new Map();

open("sales", (main) => {
  const filters = Object.keys(FILTERS).map((name) => el("button", {
    type: "button", "aria-pressed": String(name === chosen()), "data-filter": name, testid: `filter-${name}`, onclick: () => choose(name),
  }, t(`filter.${name}`)));
  main.append(
    el("div", { class: "bar" }, el("h1", {}, t("nav.sales")),
      el("a", { class: "button primary", href: "/admin/edit", testid: "new-sale" }, t("new"))),
    el("div", { class: "filters" },
      el("div", { class: "segments", role: "group", "aria-label": t("filter") }, filters),
      el("input", { type: "search", id: "search", "aria-label": t("search"), placeholder: t("search"), testid: "search", oninput: render })),
    el("p", { id: "trouble", class: "trouble", role: "status" }),
    el("ul", { id: "sales", class: "sale-rows", testid: "admin-sales" }),
    el("p", { id: "none", class: "empty quiet", hidden: true }),
    el("button", { type: "button", class: "button", id: "more", hidden: true, onclick: loadMore }, t("sales.more")),
  );
  every(REFRESH_INTERVAL, load, (error) => setText(byId("trouble"), error ? t("out_of_date", { why: explain(error) }) : ""));
});

const chosen = () => (location.hash.slice(1) in FILTERS ? location.hash.slice(1) : "all");

function choose(name) {
  history.replaceState(null, "", `#${name}`);
  for (const button of document.querySelectorAll("[data-filter]")) button.setAttribute("aria-pressed", String(button.dataset.filter === name));
  render();
}

async function load() {
  const answer = await read("/activities", etag);
  if (answer) {
    etag = answer.etag;
    sales = answer.data.items;
    if (!older.length) next = answer.data.next;
  }
  render();
}

async function loadMore() {
  const page = await send("GET", `/activities?${new URLSearchParams({ before: next })}`);
  older.push(...page.items);
  next = page.next;
  render();
}

function render() {
  const text = byId("search").value.trim().toLowerCase();
  const states = FILTERS[chosen()];
  const all = [...sales, ...older.filter(({ id }) => !sales.some((sale) => sale.id === id))];
  const shown = all.filter((sale) =>
    (!states || states.includes(stateOf(sale, figuresOf(sale)))) && `${sale.id} ${sale.title} ${Object.values(sale.titles ?? {}).join(" ")}`.toLowerCase().includes(text));
  const nodes = shown.map((sale) => {
    if (!rows.has(sale.id)) rows.set(sale.id, el("li", { testid: `row-${sale.id}` }));
    const node = rows.get(sale.id);
    const words = stateText(sale, figuresOf(sale));
    show(node, [sale, words], () => row(localized(sale), words));
    return node;
  });
  const list = byId("sales");
  if (nodes.length !== list.childElementCount || nodes.some((node, index) => node !== list.children[index])) list.replaceChildren(...nodes);
  setVisible(byId("none"), shown.length === 0);
  setText(byId("none"), t(all.length ? "sales.none_such" : "sales.none"));
  setVisible(byId("more"), next !== null);
}

/** The units of a sale, from its counters. */
const figuresOf = ({ total, sold_units: sold, held_units: held }) =>
  ({ sold, total: total < 0 ? Infinity : total, left: total < 0 ? Infinity : total - held - sold });

function row(sale, words) {
  const figures = figuresOf(sale);
  const state = stateOf(sale, figures);
  const share = shareSold(figures);
  return el(
    "a", { class: "sale-row card", href: `/admin/sale?${new URLSearchParams({ id: sale.id })}` },
    picture(sale.image || sale.skus[0]?.image, sale.title, "small"),
    el("span", { class: "sale-text" }, el("strong", {}, sale.title), el("span", { class: "quiet" }, `${period(sale.starts_at, sale.ends_at)} · ${sale.id}`)),
    el("span", { class: "sale-state" }, chip(state, words, { testid: `state-${sale.id}` }), sale.rehearsal && chip("draft", t("rehearsal")), !["draft", "scheduled"].includes(state) && share !== null && meter(share)),
    el("span", { class: "sale-figures" }, state !== "draft" && [
      el("span", {}, t("sold_units", { sold: soldText(figures) })), el("span", { class: "quiet" }, revenueText(sale.revenue)),
    ]),
  );
}
