// Renders the sale page.

import { TICKETS_BEFORE_START, clock } from "../shared/client.js";
import { byId, picture, setText, setVisible } from "../shared/dom.js";
import { count, moment } from "../shared/format.js";
import { t, titled } from "../shared/i18n.js";
import * as session from "../shared/session.js";
import { showCountdown } from "./countdown.js";
import { calendarUrl } from "./reminder.js";
import { areButtonsDisabled, endsAt, isSoldOut, phase, startsAt, state } from "./sale-state.js";
import { skuCard } from "./sku-card.js";
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
    const isEnabled = now === "open" && !soldOut && !areButtonsDisabled();
    cards.get(stock.sku)?.update({ stock, isSoldOut: soldOut, isEnabled, label: buttonLabel(now, soldOut) });
  }
  renderSteps(now);
  setVisible(byId("paused"), now === "paused");
  setVisible(byId("remind"), now === "scheduled");
}

function buttonLabel(now, soldOut) {
  if (now === "ended") return t("sale.ended");
  if (soldOut && now === "open") return t("sale.sold_out");
  if (now === "paused") return t("sale.paused");
  if (now === "scheduled") return t("sale.not_yet");
  return areButtonsDisabled() ? t("sale.held") : t("sale.buy");
}

function ticketStepKey(hasTicket) {
  if (hasTicket) return "steps.ticket_ready";
  if (clock.millisecondsUntil(startsAt()) > TICKETS_BEFORE_START) return "steps.ticket_later";
  return session.token() ? "steps.ticket_coming" : "steps.ticket";
}

function renderSteps(now) {
  const hasTicket = tickets.unusedTicket(state.id) !== null;
  const isStepDone = { "step-sign-in": session.token() !== null, "step-ticket": hasTicket, "step-start": now === "open" };
  for (const [step, isDone] of Object.entries(isStepDone)) byId(step).classList.toggle("is-done", isDone);
  setText(byId("step-ticket-text"), t(ticketStepKey(hasTicket)));
  const isSignedOut = session.token() === null;
  setVisible(byId("sign-in-first"), isSignedOut && now !== "ended");
  byId("skus").classList.toggle("is-signed-out", isSignedOut);
  setVisible(byId("steps"), now !== "ended" && (!hasTicket || now !== "open"));
}
