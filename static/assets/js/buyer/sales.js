// The page with the list of sales: the next one, those that run, those that come later, and those that have ended.

import { client, clock } from "../shared/client.js";
import { byId, el, picture, setText, setVisible } from "../shared/dom.js";
import { count, countdown, dayAndTime, dayAndTimeInside, period, priceText } from "../shared/format.js";
import { localized, t } from "../shared/i18n.js";
import { poll, randomUpTo } from "../shared/poll.js";
import { explain } from "../shared/problems.js";
import * as shell from "../shared/shell.js";

/** How many ended activities are shown. */
const MAX_ENDED = 5;

/** The share of the stock below which little is left. */
const LITTLE = 0.1;

const startTime = (activity) => Date.parse(activity.starts_at);
const byStart = (a, b) => startTime(a) - startTime(b);

/** The sales as loaded last, and as shown: what a start changes is rendered again. */
let activities = [];
let shown = "";
let updates = [];

shell.start();

poll(async () => {
  try {
    show(await client.activities());
    setVisible(byId("trouble"), false);
    return activities.some(({ phase }) => phase === "open") ? 10_000 + randomUpTo(5_000) : 60_000 + randomUpTo(30_000);
  } catch (error) {
    setText(byId("trouble"), explain(error));
    // In the place of the list, until there is one.
    byId("trouble").className = shown ? "notice" : "empty";
    setVisible(byId("trouble"), true);
    return Math.max(error.retryAfter ?? 0, 3_000 + randomUpTo(3_000));
  }
});

setInterval(update, 250);

function show(list) {
  activities = list.map(localized);
  render();
  update();
}

function update() {
  updates.forEach((step) => step());
  // A sale has started.
  if (shown && shown !== signature()) render();
}

/** The phase by the server's clock: the list may be a minute old. */
function phaseOf({ phase, starts_at: start }) {
  return phase === "scheduled" && clock.isSet() && clock.millisecondsUntil(start) <= 0 ? "open" : phase;
}

/** What the page is made of, but for what `updates` change. */
const signature = () => JSON.stringify(activities.map((activity) => [phaseOf(activity), { ...activity, server_time: null, left: null }]));

function render() {
  if (shown === signature()) return;
  shown = signature();
  updates = [];
  const of = (...phases) => activities.filter((activity) => phases.includes(phaseOf(activity))).sort(byStart);
  const [running, scheduled] = [of("open", "paused"), of("scheduled")];
  const large = scheduled[0] ?? running[0];
  byId("next-drop").replaceChildren(...(large ? [largeCard(large)] : []));
  setText(byId("running-title"), t(large === running[0] ? "list.also" : "list.running"));
  fill("running", running.filter((sale) => sale !== large), tile);
  fill("later", scheduled.filter((sale) => sale !== large), row);
  fill("ended", of("ended").reverse().slice(0, MAX_ENDED), row);
  setVisible(byId("none"), activities.length === 0);
  updates.forEach((step) => step());
}

function fill(id, sales, render) {
  byId(id).replaceChildren(...sales.map((sale) => el("li", {}, render(sale))));
  setVisible(byId(id).parentElement, sales.length > 0);
}

const link = (activity, className, ...children) =>
  el("a", { class: `card ${className}`, href: `/sale?activity=${encodeURIComponent(activity.id)}`, testid: "sale-link" }, ...children);

/** A text that is kept up to date. */
function live(properties, text) {
  const node = el("span", properties);
  updates.push(() => setText(node, text(node)));
  return node;
}

function largeCard(activity) {
  const isScheduled = phaseOf(activity) === "scheduled";
  return link(
    activity, "drop",
    picture(activity.image, activity.title, "large"),
    el(
      "span",
      { class: "drop-text" },
      el("span", { class: "drop-phase" }, t(isScheduled ? "list.next" : `chip.${phaseOf(activity)}`)),
      el("strong", { class: "drop-title" }, activity.title),
      price(activity),
      isScheduled
        ? live({ class: "clock", testid: "drop-clock" }, () => (clock.isSet() ? countdown(clock.millisecondsUntil(activity.starts_at)) : "--:--:--"))
        : stock(activity),
      live({ class: "quiet" }, () => period(activity.starts_at, activity.ends_at, clock.now() || undefined)),
      go(isScheduled ? "" : "primary"),
    ),
  );
}

/** What a tap on the card does: all of it is the link. */
const go = (look = "") => el("span", { class: `button ${look}` }, t("list.go"));

const tile = (activity) => link(
  activity, `tile-link ${activity.sold_out ? "is-out" : ""}`,
  picture(activity.image, activity.title, "large"),
  el("strong", {}, activity.title),
  price(activity),
  stock(activity),
  live({ class: "quiet" }, () => (phaseOf(activity) === "paused" ? t("chip.paused") : t("list.until", { time: dayAndTimeInside(activity.ends_at, clock.now() || undefined) }))),
  ...(activity.sold_out || phaseOf(activity) === "paused" ? [] : [go("primary")]),
);

const row = (activity) => link(
  activity, "sale-link",
  picture(activity.image, activity.title, "small"),
  el("span", { class: "sale-text" }, el("strong", {}, activity.title), live({ class: "quiet" }, () => whenText(activity))),
);

function whenText(activity) {
  const now = clock.now() || undefined;
  if (phaseOf(activity) === "ended") return t("list.ended_at", { time: dayAndTimeInside(activity.ends_at, now) });
  return [dayAndTime(activity.starts_at, now), lowestPrice(activity)].filter(Boolean).join(" · ");
}

const price = (activity) => el("span", { class: "price" }, lowestPrice(activity));

const lowestPrice = ({ price: amount, currency }) =>
  (!currency ? "" : amount === 0 ? priceText(amount, currency) : t("sale.from", { price: priceText(amount, currency) }));

/** What is left of an open sale: as loaded last, not as rendered. */
function stock({ id }) {
  return live({ class: "left", testid: "list-left" }, (node) => {
    const { sold_out: isSoldOut, left, total } = activities.find((activity) => activity.id === id) ?? {};
    const isLittle = !isSoldOut && left <= total * LITTLE;
    node.classList.toggle("is-little", isLittle);
    if (isSoldOut) return t("sale.sold_out");
    return total ? t(isLittle ? "sale.few_left" : "sale.left", { left: count(left), total: count(total) }) : "";
  });
}

// The server may have written the list into the page. Its time is too old for the clock.
const first = JSON.parse(byId("first-list")?.textContent ?? "null");
if (first?.length) show(first);
