// The click on a sale's page, and what becomes of it.

import { byId, say } from "../shared/dom.js";
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
const HOLD = 9_500;

let attempt = null;

/** Whether an attempt is under way: then the page's notice is its own. */
export const isTrying = () => attempt !== null;

/** The ticket for this sale, solving the human check where one is asked for. */
export const ticket = () =>
  tickets.ensure(state.id, {
    check: state.sale.human_check,
    place: byId("check"),
    onCheck: (text) => say(byId("check-status"), text),
  });

/** Tries to buy. `gate` is the watch over the sale's gate. */
export async function onBuy(sku, quantity, gate) {
  // At once, before anything can wait: a second click finds a disabled button.
  giveUp();
  hold();
  if (!session.token()) {
    showNotice(null);
    if (!(await shell.signIn())) return giveUp();
    hold();
  }
  const mine = (attempt = new AbortController());
  const report = (step) => attempt === mine && progress(step);
  try {
    const done = await buy({ activity: state.id, sku, quantity, ticket, gate, report, signal: mine.signal });
    if (attempt === mine) finish(done, sku, gate);
  } catch (error) {
    if (attempt === mine) showNotice({ tone: "bad", text: explain(error) });
  } finally {
    if (attempt === mine) giveUp();
  }
}

/** Ends the attempt that is under way, if any. Its ticket stays: whatever it reached, the next try finds. */
export function giveUp() {
  attempt?.abort(new Error("given up"));
  attempt = null;
  state.heldUntil = 0;
  render();
}

function hold() {
  state.heldUntil = performance.now() + HOLD;
  render();
}

function progress({ step, error, until }) {
  if (step === "waiting") showNotice({ tone: "calm", text: explain(error), until });
  else showNotice({ tone: "busy", text: t(`attempt.${step}`) });
}

function finish(done, sku, gate) {
  if (done.kind === "accepted") {
    showNotice({ tone: "good", text: t("attempt.accepted") });
    location.assign(`/order?order_no=${encodeURIComponent(done.order.order_no)}`);
  } else if (done.kind === "look") {
    showNotice({ tone: "calm", text: t("attempt.look"), link: ["/orders", t("nav.orders")] });
  } else {
    refuse(done.error, sku, gate);
  }
}

function refuse(error, sku, gate) {
  const { code } = error;
  if (code === "unauthenticated") return void shell.signInAgain();
  if (code === "sold_out") {
    state.refusedAt.set(sku, performance.now());
    void gate.look();
  }
  showNotice({
    tone: code === "sold_out" || code === "ended" ? "calm" : "bad",
    text: explain(error),
    link: code === "limit_reached" ? ["/orders", t("nav.orders")] : undefined,
  });
}
