// Renders the sale page.

import { TICKETS_BEFORE_START, clock } from "../shared/client.js";
import { byId, picture, setText, setVisible } from "../shared/dom.js";
import { count, dayAndTimeInside, duration, minuteTime, period, priceText } from "../shared/format.js";
import { inAnyLanguage, language, sentences, t, titled } from "../shared/i18n.js";
import * as session from "../shared/session.js";
import { renderBar, whoText } from "./buy-bar.js";
import { renderCode } from "./presale-code.js";
import { reserveCountdown, showCountdown } from "./countdown.js";
import { endsAt, hasOnlyLines, isAllSoldOut, phase, startsAt, state } from "./sale-state.js";
import { renderCards, updateCards } from "./sku-cards.js";
import { reserveSpace } from "./steady.js";
import * as tickets from "./ticket.js";

/** Renders what an operator may change. */
export function renderActivity() {
  const { activity } = state;
  document.title = titled(activity.title);
  setText(byId("title"), activity.title);
  setText(byId("description"), activity.description ?? "");
  showPicture(activity.image || activity.skus.find(({ image }) => image)?.image || "", activity.title);
  setText(byId("price"), lowestPrice(activity.skus));
  const calendar = `/api/activities/${encodeURIComponent(activity.id)}/calendar.ics?lang=${language}`;
  if (byId("remind").getAttribute("href") !== calendar) byId("remind").href = calendar;
  byId("remind").download = `${activity.id}.ics`;
  setText(byId("rules"), rulesText(activity));
  reserveCountdown([Date.parse(activity.ends_at) - Date.parse(activity.starts_at), clock.millisecondsUntil(activity.starts_at) || 0]);
  const outcomes = Object.entries(OUTCOMES).filter(([name]) => name !== "line" || activity.line).map(([, outcome]) => outcome);
  for (const part of ["title", "text"]) reserveSpace(byId(`outcome-${part}`), outcomes.map((outcome) => outcome[part]()));
  setText(byId("who"), whoText());
  setVisible(byId("who"), whoText() !== "");
  renderCards();
}

/** Keeps a picture that is already there: the server may have written it into the page. */
function showPicture(url, name) {
  const shown = byId("picture").querySelector("img")?.getAttribute("src");
  if (shown !== url || !url) byId("picture").replaceChildren(picture(url, name, "large"));
}

function lowestPrice(skus) {
  const lowest = skus.reduce((best, sku) => (sku.price < best.price ? sku : best));
  const price = priceText(lowest.price, lowest.currency);
  return skus.some((sku) => sku.price !== lowest.price) ? t("sale.from", { price }) : price;
}

function rulesText({ per_user: units, pay_timeout_seconds: seconds, refund_window_seconds: refundSeconds, line }) {
  const refunds = refundSeconds === undefined ? "" : refundSeconds === 0 ? t("sale.no_refunds") : t("sale.refunds", { time: duration(refundSeconds) });
  return sentences(t("sale.rules", { units: count(units), time: duration(seconds) }), line && sentences(t("line.when"), lineRule()), refunds);
}

const lineRule = () => t("line.rule", { time: duration(state.activity.line.offer_seconds) });

/** What is shown in place of the countdown. */
const OUTCOMES = {
  paused: { title: () => t("phase.paused"), text: () => t("sale.calm") },
  sold_out: {
    title: () => t("outcome.sold_out"),
    text: () => (state.activity.line ? t("line.full") : t("outcome.sold_out_more", { time: duration(state.activity.pay_timeout_seconds), end: minuteTime(endsAt()) })),
  },
  line: { title: () => t("line.title"), text: () => sentences(lineRule(), t("line.until", { end: minuteTime(endsAt()) })) },
  ended: { title: () => t("phase.ended"), text: () => t("outcome.ended_more", { end: dayAndTimeInside(endsAt()) }) },
};

/** Shows the activity, or the message that there is none. */
export function showSale(found) {
  setVisible(byId("sale"), found);
  setVisible(byId("missing"), !found);
}

/** Shows the shop's announcement, or none. */
export function showAnnouncement(texts) {
  const node = byId("announcement");
  setText(node, inAnyLanguage(texts));
  node.dataset.more = t("sale.read_on");
  // A long one opens on focus.
  const isLong = node.scrollHeight > node.clientHeight;
  if (node !== document.activeElement) node.tabIndex = isLong ? 0 : -1;
  node.classList.toggle("is-long", isLong);
}

/** Updates the parts that change. Must be cheap: it runs ten times a second. */
export function render() {
  if (!state.activity || !clock.isSet()) return;
  const now = phase();
  setText(byId("when"), period(startsAt(), endsAt(), clock.now()));
  showCountdown(now, clock.millisecondsUntil(now === "open" ? endsAt() : startsAt()), state.activity.title);
  setVisible(byId("remind"), now === "scheduled");
  renderOutcome(now);
  renderSteps();
  updateCards();
  renderBar();
  renderCode();
}

/** What happened: for a visitor who comes too late, or while the sale is paused. */
function renderOutcome(now) {
  const outcome = OUTCOMES[now !== "open" ? now : isAllSoldOut() ? "sold_out" : hasOnlyLines() ? "line" : ""];
  setVisible(byId("countdown"), !outcome);
  setVisible(byId("outcome"), Boolean(outcome));
  if (!outcome) return;
  setText(byId("outcome-title"), outcome.title());
  setText(byId("outcome-text"), outcome.text());
}

function renderSteps() {
  const hasTicket = tickets.unusedTicket(state.id) !== null;
  const isEarly = clock.millisecondsUntil(startsAt()) > TICKETS_BEFORE_START;
  byId("step-sign-in").classList.toggle("is-done", session.token() !== null);
  byId("step-ticket").classList.toggle("is-done", hasTicket);
  setText(byId("step-ticket-text"), t(hasTicket ? "steps.ticket_ready" : isEarly ? "steps.ticket_later" : "steps.ticket_coming"));
  byId("who").classList.toggle("is-refused", state.refusal !== null && state.refusal.requires !== "code");
}
