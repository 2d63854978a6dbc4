// The bar of the sale page: one button, whose label, note and action follow the state, in a box that never changes.

import { clock } from "../shared/client.js";
import { byId, setText, setVisible } from "../shared/dom.js";
import { count, countdown, dayAndTimeInside, duration, priceText } from "../shared/format.js";
import { sentences, t } from "../shared/i18n.js";
import { explain } from "../shared/problems.js";
import * as session from "../shared/session.js";
import { isCheckOpen, isCheckPending } from "./human-check.js";
import { itemName } from "./order-words.js";
import {
  areButtonsDisabled, chosenQuantity, chosenSku, isAllSoldOut, isSoldOut, joins, openOrders, orderToPay, phase, startsAt, state,
} from "./sale-state.js";

/** The action of the button when the pointer last went down on it, or null. */
let pressed = null;
addEventListener("pointerdown", ({ target }) => (pressed = target.closest?.(".buy:enabled")?.dataset.action ?? null), { capture: true });

/**
 * Handles clicks by `actions`: `buy`, `join`, `order`, `orders`, `sign_in`, `switch`, `check` and `next`, and `left` itself. A click counts if the button did the same when the
 * pointer went down on it; a keyboard and assistive technology click without a pointer.
 */
export function startBar(actions) {
  const left = () => (document.querySelector("#skus .sku:not(.is-out)") ?? byId("skus")).scrollIntoView({ block: "center" });
  byId("buy").addEventListener("click", ({ detail, currentTarget: { dataset } }) => {
    if (detail === 0 || pressed === dataset.action) ({ left, ...actions })[dataset.action]?.();
  });
}

/** Shows the state. */
export function renderBar() {
  const button = byId("buy");
  const { action = "", label, item = "", note = "", tone = "", hasSteps = false } = content();
  if (button.disabled === (action !== "")) button.disabled = action === "";
  if (button.dataset.action !== action) button.dataset.action = action;
  if (button.dataset.tone !== tone) button.dataset.tone = tone;
  setText(byId("buy-label"), label);
  const hasOrder = openOrders().length > 0 && !state.progress;
  setText(byId("note-item"), hasOrder || hasSteps ? "" : item);
  setText(byId("note-text"), hasOrder || hasSteps ? "" : note);
  setVisible(byId("steps"), hasSteps && !hasOrder);
}

/** What leads to the buyer's order, by its status. */
const ORDER_LABELS = { waiting: "bar.place", queued: "bar.order", pending_payment: "bar.pay" };

/** What the bar says: without an action the button is disabled. `tone`: `busy` works, `wait` becomes active by itself, `quiet` is not the next step. */
function content() {
  const { activity, progress, refusal, atLimit } = state;
  const now = phase();
  const sku = chosenSku();
  const item = itemName(sku);
  const order = orderToPay(sku.sku);
  const isBusy = areButtonsDisabled();
  const isOpen = now === "open" && !isBusy;
  const isLine = joins(sku);
  const hold = { item, note: isLine ? lineNote(sku) : t(sku.price === 0 ? "bar.hold_free" : "bar.hold", { time: duration(activity.pay_timeout_seconds) }) };
  if (progress?.step === "accepted" || progress?.step === "joined") {
    return { label: t(`bar.${progress.step}`), note: t(`attempt.${progress.step}`), tone: "good" };
  }
  if (order && !isBusy) return { action: "order", label: t(ORDER_LABELS[order.status]) };
  if (now === "ended" || (isOpen && isAllSoldOut())) return nextContent();
  if (refusal?.requires === "code") return { action: "code", label: t("bar.code"), note: t("refused.code") };
  if (refusal) {
    // Where the shop signs its users in, it signs them out, too.
    const canSwitch = !byId("sign-out").hidden;
    return { action: canSwitch ? "switch" : "", label: t(canSwitch ? "bar.refused" : "bar.refused_here"), note: explainRefusal(refusal) };
  }
  if (isOpen && isSoldOut(sku)) return { action: "left", label: t("bar.left"), item, note: t("sale.sold_out") };
  if (now === "paused") return { label: t("sale.paused"), tone: "wait", hasSteps: session.token() !== null, ...hold };
  if (session.token() && isCheckPending()) {
    return { action: "check", label: t("bar.check"), note: t("bar.check_first"), tone: isCheckOpen() ? "quiet" : "" };
  }
  if (isBusy) return { label: progressLabel(progress), note: progressNote(progress), tone: "busy" };
  if (!session.token()) {
    return now === "open" ? { action: isLine ? "join" : "buy", label: t(isLine ? "sign_in.join" : "sign_in.buy"), ...hold }
      : { action: "sign_in", label: t("sign_in.take_part"), note: t("bar.sign_in") };
  }
  if (now === "scheduled") {
    return { label: t("bar.opens", { time: countdown(clock.millisecondsUntil(startsAt())) }), tone: "wait", hasSteps: true };
  }
  const units = chosenQuantity();
  if (atLimit?.sku === sku.sku && units >= atLimit.quantity) return { action: "orders", label: t("nav.orders"), item, note: t("problem.limit_reached") };
  if (isLine) return { action: "join", label: t("line.join"), ...(progress ? { note: progressNote(progress) } : hold) };
  const label = t("sale.buy", { units: count(units), total: priceText(units * sku.price, sku.currency) });
  return { action: "buy", label, ...(progress ? { note: progressNote(progress) } : hold) };
}

/** How many wait for a SKU, and for how long a unit is offered. */
const lineNote = ({ waiting }) =>
  t(waiting ? "line.note" : "line.note_first", { waiting: count(waiting), time: duration(state.activity.line.offer_seconds) });

/** The way on from a sale that has nothing left. */
function nextContent() {
  const { next } = state;
  if (!next) return { action: "next", label: t("sale.back"), note: phase() === "open" ? t(state.activity.line ? "line.full" : "bar.comes_back") : next === null ? t("list.none") : "" };
  // Two lines of the button.
  const title = next.title.length > 30 ? `${next.title.slice(0, 29)}…` : next.title;
  return { action: "next", label: t("bar.next", { title }), note: t("bar.next_at", { time: dayAndTimeInside(next.starts_at, clock.now()) }) };
}

/** Who may take part, where not everybody may. */
export function whoText() {
  const { members_only: membersOnly, min_level: level, invited_only: invitedOnly, codes } = state.activity.eligibility;
  const invited = codes ? t("who.codes") : invitedOnly && t("who.invited");
  return sentences(level > 0 ? t("who.level", { level }) : membersOnly && t("who.members"), invited);
}

/** Why this user may not take part, by the rule that refused. */
const explainRefusal = (error) => (error.requires ? t(`refused.${error.requires}`) : explain(error));

function progressLabel(progress) {
  const seconds = Math.ceil((progress?.until - performance.now()) / 1000);
  if (seconds > 0) return t("bar.again", { seconds });
  return t(progress?.step === "sending" ? "bar.sending" : "sale.held");
}

const progressNote = (progress) =>
  (!progress ? "" : progress.error ? explain(progress.error) : t(`attempt.${progress.step}`));
