// Draws the page of a sale.

import * as clock from "../shared/clock.js";
import { byId, picture, say, show } from "../shared/dom.js";
import { count, moment } from "../shared/format.js";
import { t } from "../shared/i18n.js";
import * as session from "../shared/session.js";
import { showCountdown } from "./countdown.js";
import { endsAt, isHeld, isSoldOut, phase, startsAt, state } from "./sale-state.js";
import { skuCard } from "./sku-card.js";
import * as tickets from "./ticket.js";

const cards = new Map();

/** Puts what does not change on the page. `onBuy(sku, quantity)` is the click. */
export function describe(onBuy) {
  const { sale } = state;
  document.title = `${sale.title} · Stampede`;
  say(byId("title"), sale.title);
  say(byId("description"), sale.description ?? "");
  byId("picture").replaceChildren(picture(sale.image || sale.skus[0]?.image, sale.title, "large"));
  say(byId("when"), t("sale.when", { from: moment(sale.starts_at), to: moment(sale.ends_at) }));
  const minutes = Math.round(sale.pay_timeout_seconds / 6) / 10;
  say(byId("rules"), t("sale.rules", { units: count(sale.per_user), minutes }));
  for (const sku of sale.skus) {
    const card = skuCard(sku, { perUser: sale.per_user, onBuy });
    cards.set(sku.sku, card);
    byId("skus").append(card.card);
  }
}

/** Shows the sale, or that there is none. */
export function showSale(found) {
  show(byId("sale"), found);
  show(byId("missing"), !found);
}

/** Brings everything that changes up to date; cheap, since it is called ten times a second. */
export function render() {
  if (!state.sale || !clock.isSet()) return;
  const now = phase();
  showCountdown(now, clock.until(now === "open" ? endsAt() : startsAt()));
  for (const stock of state.sale.skus) {
    const soldOut = isSoldOut(stock);
    const enabled = now === "open" && !soldOut && !isHeld();
    cards.get(stock.sku)?.update({ stock, soldOut, enabled, label: label(now, soldOut) });
  }
  steps(now);
  show(byId("paused"), now === "paused");
}

function label(now, soldOut) {
  if (now === "ended") return t("sale.ended");
  if (soldOut && now === "open") return t("sale.sold_out");
  if (now === "paused") return t("sale.paused");
  if (now === "scheduled") return t("sale.not_yet");
  return isHeld() ? t("sale.held") : t("sale.buy");
}

function ticketStep(ready) {
  if (ready) return "steps.ticket_ready";
  if (clock.until(startsAt()) > tickets.EARLY) return "steps.ticket_later";
  return session.token() ? "steps.ticket_coming" : "steps.ticket";
}

function steps(now) {
  const ready = tickets.held(state.id) !== null;
  const done = { "step-sign-in": session.token() !== null, "step-ticket": ready, "step-start": now === "open" };
  for (const [step, yes] of Object.entries(done)) byId(step).classList.toggle("is-done", yes);
  say(byId("step-ticket-text"), t(ticketStep(ready)));
  show(byId("steps"), now !== "ended" && (!ready || now !== "open"));
}
