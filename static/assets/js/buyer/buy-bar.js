// The bar of the sale page: one button, whose label, note and action follow the state, in a box that never changes.

import { clock } from "../shared/client.js";
import { byId, setText, setVisible } from "../shared/dom.js";
import { count, countdown, duration, priceText } from "../shared/format.js";
import { t } from "../shared/i18n.js";
import { explain } from "../shared/problems.js";
import * as session from "../shared/session.js";
import { isCheckPending } from "./human-check.js";
import {
  areButtonsDisabled, chosenQuantity, chosenSku, isSoldOut, openOrders, orderToPay, phase, startsAt, state,
} from "./sale-state.js";

/** The action of the button when the pointer last went down on it, or null. */
let pressed = null;
addEventListener("pointerdown", ({ target }) => (pressed = target.closest?.(".buy:enabled")?.dataset.action ?? null), { capture: true });

/**
 * Handles clicks by `actions`: `buy`, `order`, `sign_in` and `check`. A click counts if the button did the same when the
 * pointer went down on it; a keyboard and assistive technology click without a pointer.
 */
export function startBar(actions) {
  byId("buy").addEventListener("click", ({ detail, currentTarget: { dataset } }) => {
    if (detail === 0 || pressed === dataset.action) actions[dataset.action]?.();
  });
}

/** Shows the state. */
export function renderBar() {
  const button = byId("buy");
  const { action = "", label, note = "", tone = "", hasSteps = false } = content();
  if (button.disabled === (action !== "")) button.disabled = action === "";
  if (button.dataset.action !== action) button.dataset.action = action;
  if (button.dataset.tone !== tone) button.dataset.tone = tone;
  setText(byId("buy-label"), label);
  const hasOrder = openOrders().length > 0 && !state.progress;
  setText(byId("note"), hasOrder || hasSteps ? "" : note);
  setVisible(byId("steps"), hasSteps && !hasOrder);
}

/** What the bar says: without an action the button is disabled. */
function content() {
  const { activity, progress, refusal } = state;
  const now = phase();
  const sku = chosenSku();
  const order = orderToPay(sku.sku);
  const isBusy = areButtonsDisabled();
  if (progress?.step === "accepted") return { label: t("bar.accepted"), note: t("attempt.accepted"), tone: "good" };
  if (order && !isBusy) return { action: "order", label: t(order.status === "queued" ? "bar.order" : "bar.pay") };
  if (now === "ended") return { label: t("sale.ended") };
  if (refusal) return { label: t("bar.refused"), note: explainRefusal(refusal) };
  if (now === "open" && isSoldOut(sku)) return { label: t("sale.sold_out"), note: t("bar.comes_back") };
  if (now === "paused") return { label: t("sale.paused"), note: t("sale.calm") };
  if (session.token() && isCheckPending()) return { action: "check", label: t("bar.check"), note: t("bar.check_first") };
  if (isBusy) return { label: progressLabel(progress), note: progressNote(progress) };
  const hold = progressNote(progress) || t(sku.price === 0 ? "bar.hold_free" : "bar.hold", { time: duration(activity.pay_timeout_seconds) });
  if (!session.token()) {
    return now === "open" ? { action: "buy", label: t("sign_in.buy"), note: hold }
      : { action: "sign_in", label: t("sign_in.take_part"), note: whoText() || t("bar.sign_in") };
  }
  if (now === "scheduled") return { label: t("bar.opens", { time: countdown(clock.millisecondsUntil(startsAt())) }), hasSteps: true };
  const units = chosenQuantity();
  return { action: "buy", label: t("sale.buy", { units: count(units), total: priceText(units * sku.price, sku.currency) }), note: hold };
}

/** Who may take part, where not everybody may. */
export function whoText() {
  const { members_only: membersOnly, min_level: level, invited_only: invitedOnly } = state.activity.eligibility;
  return [level > 0 ? t("who.level", { level }) : membersOnly && t("who.members"), invitedOnly && t("who.invited")].filter(Boolean).join(" ");
}

/** Why this user may not take part, by the rule that refused. */
export function explainRefusal(error) {
  return error.requires ? t(`refused.${error.requires}`) : explain(error);
}

function progressLabel(progress) {
  const seconds = Math.ceil((progress?.until - performance.now()) / 1000);
  if (seconds > 0) return t("bar.again", { seconds });
  return t(progress?.step === "sending" ? "bar.sending" : "sale.held");
}

const progressNote = (progress) =>
  (!progress ? "" : progress.error ? explain(progress.error) : t(`attempt.${progress.step}`));
