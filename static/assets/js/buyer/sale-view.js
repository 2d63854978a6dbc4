// Renders the sale page.

import { TICKETS_BEFORE_START, clock } from "../shared/client.js";
import { byId, picture, setText, setVisible } from "../shared/dom.js";
import { count, moment } from "../shared/format.js";
import { t, titled } from "../shared/i18n.js";
import * as session from "../shared/session.js";
import { reserveCountdown, showCountdown } from "./countdown.js";
import { calendarUrl } from "./reminder.js";
import { areButtonsDisabled, endsAt, isSoldOut, orderToPay, phase, startsAt, state } from "./sale-state.js";
import { skuCard } from "./sku-card.js";
import { reserveSpace } from "./steady.js";
import * as tickets from "./ticket.js";

const cards = new Map();

/** Renders what an operator may change. `onBuy(sku, quantity)` is called on a click of a buy button. */
export function renderActivity(onBuy) {
  const { activity } = state;
  document.title = titled(activity.title);
  setText(byId("title"), activity.title);
  setText(byId("description"), activity.description ?? "");
  byId("picture").replaceChildren(picture(activity.image || activity.skus[0]?.image, activity.title, "large"));
  setText(byId("when"), t("sale.when", { from: moment(activity.starts_at), to: moment(activity.ends_at) }));
  URL.revokeObjectURL(byId("remind").href);
  byId("remind").href = calendarUrl(activity, location.href);
  byId("remind").download = `${activity.id}.ics`;
  const minutes = Math.round(activity.pay_timeout_seconds / 6) / 10;
  const { refund_window_seconds: refundSeconds } = activity;
  const days = Math.round(refundSeconds / 8_640) / 10;
  const refunds = refundSeconds === undefined ? "" : refundSeconds === 0 ? t("sale.no_refunds") : t("sale.refunds", { days });
  setText(byId("rules"), `${t("sale.rules", { units: count(activity.per_user), minutes })} ${refunds}`.trim());
  reserveCountdown([Date.parse(activity.ends_at) - Date.parse(activity.starts_at), clock.millisecondsUntil(activity.starts_at)]);
  reserveSpace(byId("step-ticket-text"), ["steps.ticket_ready", "steps.ticket_later", "steps.ticket_coming"].map((key) => t(key)));
  // Cards stay, so that a button keeps the focus.
  for (const sku of activity.skus) {
    if (!cards.has(sku.sku)) {
      cards.set(sku.sku, skuCard(sku.sku, onBuy));
      byId("skus").append(cards.get(sku.sku).card);
    }
    cards.get(sku.sku).describe(sku, activity.per_user);
  }
  for (const [id, { card }] of cards) {
    if (!activity.skus.some(({ sku }) => sku === id)) card.remove(), cards.delete(id);
  }
}

/** Shows the activity, or the message that there is none. */
export function showSale(found) {
  setVisible(byId("sale"), found);
  setVisible(byId("missing"), !found);
}

/** Updates the parts that change. Must be cheap: it runs ten times a second. */
export function render() {
  if (!state.activity || !clock.isSet()) return;
  const now = phase();
  showCountdown(now, clock.millisecondsUntil(now === "open" ? endsAt() : startsAt()));
  for (const stock of state.activity.skus) {
    const soldOut = isSoldOut(stock);
    const order = orderToPay(stock.sku);
    const isEnabled = (order !== undefined || (now === "open" && !soldOut)) && !areButtonsDisabled();
    const label = order ? orderLabel(order) : buttonLabel(now, soldOut);
    cards.get(stock.sku)?.update({ stock, isSoldOut: soldOut, isEnabled, label });
  }
  renderReadiness(now);
  setVisible(byId("remind"), now === "scheduled");
}

const orderLabel = ({ status }) => t(status === "queued" ? "order.title" : "order.pay_now");

function buttonLabel(now, soldOut) {
  if (now === "ended") return t("sale.ended");
  if (soldOut && now === "open") return t("sale.sold_out");
  if (now === "paused") return t("sale.paused");
  if (now === "scheduled") return t("sale.not_yet");
  return areButtonsDisabled() ? t("sale.held") : t("sale.buy");
}

function ticketStepKey(hasTicket) {
  if (hasTicket) return "steps.ticket_ready";
  return clock.millisecondsUntil(startsAt()) > TICKETS_BEFORE_START ? "steps.ticket_later" : "steps.ticket_coming";
}

function renderReadiness(now) {
  const isSignedOut = session.token() === null;
  const hasTicket = tickets.unusedTicket(state.id) !== null;
  byId("step-sign-in").classList.toggle("is-done", !isSignedOut);
  byId("step-ticket").classList.toggle("is-done", hasTicket);
  setText(byId("step-ticket-text"), t(ticketStepKey(hasTicket)));
  byId("skus").classList.toggle("is-signed-out", isSignedOut);
  const isSelling = now === "scheduled" || now === "open";
  setVisible(byId("paused"), now === "paused");
  setVisible(byId("sign-in-first"), isSelling && isSignedOut);
  setVisible(byId("steps"), isSelling && !isSignedOut);
}
