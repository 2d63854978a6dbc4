// The click on a sale's page, and what becomes of it.

import { byId, setText } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { explain } from "../shared/problems.js";
import * as session from "../shared/session.js";
import * as shell from "../shared/shell.js";
import { buy } from "./attempt.js";
import { showNotice } from "./notice.js";
import { state } from "./sale-state.js";
import { render } from "./sale-view.js";
import * as tickets from "./ticket.js";

/** How long a click holds the buttons: ten seconds at most, and timers come late. */
const BUTTON_HOLD_MS = 9_500;

let attempt = null;

/** Whether an attempt is under way: then the page's notice is its own. */
export const isBuying = () => attempt !== null;

/** The ticket for this sale, solving the human check where one is asked for. */
export const obtainTicket = () =>
  tickets.ensureTicket(state.id, {
    check: state.activity.human_check,
    container: byId("check"),
    onStatus: (text) => setText(byId("check-status"), text),
  });

/** Tries to buy. `gate` is the watch over the sale's gate. */
export async function onBuy(sku, quantity, gate) {
  // At once, before anything can wait: a second click finds a disabled button.
  cancelAttempt();
  disableButtons();
  if (!session.token()) {
    showNotice(null);
    if (!(await shell.signIn())) return cancelAttempt();
    disableButtons();
  }
  const thisAttempt = (attempt = new AbortController());
  const report = (step) => attempt === thisAttempt && showProgress(step);
  try {
    const { signal } = thisAttempt;
    const outcome = await buy({ activity: state.id, sku, quantity, obtainTicket, gate, report, signal });
    if (attempt === thisAttempt) showOutcome(outcome, sku, gate);
  } catch (error) {
    if (attempt === thisAttempt) showNotice({ tone: "bad", text: explain(error) });
  } finally {
    if (attempt === thisAttempt) cancelAttempt();
  }
}

/** Ends the attempt that is under way, if any. Its ticket stays: whatever it reached, the next try finds. */
export function cancelAttempt() {
  attempt?.abort(new Error("given up"));
  attempt = null;
  state.disabledUntil = 0;
  render();
}

function disableButtons() {
  state.disabledUntil = performance.now() + BUTTON_HOLD_MS;
  render();
}

function showProgress({ step, error, until }) {
  if (step === "waiting") showNotice({ tone: "calm", text: explain(error), until });
  else showNotice({ tone: "busy", text: t(`attempt.${step}`) });
}

function showOutcome(outcome, sku, gate) {
  if (outcome.kind === "accepted") {
    showNotice({ tone: "good", text: t("attempt.accepted") });
    location.assign(`/order?order_no=${encodeURIComponent(outcome.order.order_no)}`);
  } else if (outcome.kind === "unknown") {
    showNotice({ tone: "calm", text: t("attempt.look"), link: ["/orders", t("nav.orders")] });
  } else {
    showRefusal(outcome.error, sku, gate);
  }
}

function showRefusal(error, sku, gate) {
  const { code } = error;
  if (code === "unauthenticated") return void shell.signInAgain();
  if (code === "sold_out") {
    state.refusedAt.set(sku, performance.now());
    void gate.refresh();
  }
  showNotice({
    tone: code === "sold_out" || code === "ended" ? "calm" : "bad",
    text: explain(error),
    link: code === "limit_reached" ? ["/orders", t("nav.orders")] : undefined,
  });
}
