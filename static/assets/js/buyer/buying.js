// Handles a click on a buy button and shows the outcome.

import { client } from "../shared/client.js";
import { t } from "../shared/i18n.js";
import { explain } from "../shared/problems.js";
import * as session from "../shared/session.js";
import * as shell from "../shared/shell.js";
import * as lostOrder from "./lost-order.js";
import { showNotice } from "./notice.js";
import * as ownOrders from "./own-orders.js";
import { givenCode } from "./presale-code.js";
import { cardOf, orderToPay, state } from "./sale-state.js";
import { render, renderActivity } from "./sale-view.js";
import * as tickets from "./ticket.js";

/** How long a click disables the buttons: below the limit of 10 s (A3), because timers fire late. */
const BUTTON_HOLD_MS = 9_500;

/** How long the buttons stay disabled after a refusal: a finger that taps on does not press what replaces them. */
const SETTLE_MS = 1_000;

let attempt = null;

// A page that the browser restores from its back/forward cache sells again.
addEventListener("pageshow", ({ persisted }) => {
  if (!persisted) return;
  cancelAttempt();
  void findLostOrder();
});

/** Whether an attempt is running. Meanwhile errors of polling do not replace its notice. */
export const isBuying = () => attempt !== null;

/** Returns the ticket for this activity; solves the human check if the activity requires one. */
export const obtainTicket = () => tickets.ensureTicket(state.id, state.activity.human_check, givenCode());

const dropTicket = () => session.removeTicket(state.id);
const saveTicket = (ticket) => session.storeTicket(state.id, ticket);

/** Starts an attempt to buy `quantity` units of a SKU at its shown price. `gate` is the result of `watchGate`. */
export async function onBuy(item, quantity, gate) {
  const { sku, price } = item;
  // Before the first await, so that a second click finds a disabled button.
  cancelAttempt();
  disableButtons();
  showNotice(null);
  await shell.whenUserIsKnown();
  if (!session.token()) {
    if (!(await shell.signIn())) return cancelAttempt();
    disableButtons();
  }
  if (state.orders === null) await ownOrders.load();
  const order = orderToPay(sku);
  if (order) return openOrder(order);
  const options = { sku, quantity, amount: price * quantity, obtainTicket, dropTicket, saveTicket, gate };
  const buy = (signal, onStep) => client.buy(state.id, { ...options, onStep, signal });
  await follow(buy, (error) => showRefusal(error, item, quantity, gate));
}

/** Looks for the order of a ticket whose answer was lost when the page was left. Call when the page is shown. */
export async function findLostOrder() {
  const ticket = session.storedTicket(state.id);
  if (!ticket?.unanswered) return;
  const find = async (signal, onStep) => {
    onStep({ step: "looking" });
    const order = await client.findOrder(ticket, { signal }).catch(() => undefined);
    if (order) return { kind: "accepted", order, ticket };
    if (order === undefined) return { kind: "unknown" };
    saveTicket({ ...ticket, unanswered: false });
    return { kind: "refused" };
  };
  await follow(find, () => showNotice(null));
}

/** Runs an attempt by `run(signal, onStep)`, which resolves to its outcome, and shows that. */
async function follow(run, onRefusal) {
  const thisAttempt = (attempt = new AbortController());
  const hadOrdered = ownOrders.hasOrdered();
  const id = String(Math.random());
  const onStep = (step) => {
    if (step.step === "sending" && !hadOrdered) ownOrders.noteOrder(id);
    if (attempt === thisAttempt) showProgress(step);
  };
  try {
    const outcome = await run(thisAttempt.signal, onStep);
    const { order } = outcome;
    // Also if the buyer has cancelled meanwhile: the ticket is used.
    if (order) {
      session.markTicketUsed(state.id, order.order_no, outcome.ticket.ticket);
      lostOrder.keep(order);
      ownOrders.add(order);
    }
    if (outcome.kind === "refused" && !hadOrdered) ownOrders.forgetOrder(id);
    if (attempt !== thisAttempt) return;
    if (order) {
      showProgress({ step: order.status === "waiting" ? "joined" : "accepted" });
      return openOrder(order);
    }
    if (outcome.kind === "refused") onRefusal(outcome.error);
    else {
      showNotice({ tone: "calm", text: t("attempt.look"), link: ["/orders", t("nav.orders")] });
      void ownOrders.load();
    }
  } catch (error) {
    if (attempt === thisAttempt) showNotice({ tone: "bad", text: explain(error) });
  }
  if (attempt === thisAttempt) cancelAttempt(SETTLE_MS);
}

/** Cancels the running attempt, if any. Its ticket is kept: if it made an order, the next attempt gets that order. */
export function cancelAttempt(settleMs = 0) {
  attempt?.abort(new Error("given up"));
  attempt = null;
  Object.assign(state, { disabledUntil: performance.now() + settleMs, progress: null });
  render();
}

function disableButtons() {
  state.disabledUntil = performance.now() + BUTTON_HOLD_MS;
  render();
}

function showProgress(step) {
  state.progress = step;
  render();
}

/** Leaves for the order's page. */
function openOrder({ order_no: orderNo }) {
  disableButtons();
  location.assign(ownOrders.orderAddress(orderNo));
}

/** What is refused for another reason than the buyer's is calm. */
const CALM = ["sold_out", "insufficient_stock", "price_changed", "ended"];

function showRefusal(error, item, quantity, gate) {
  const { code, left, amount, currency, orderNo } = error;
  if (code === "unauthenticated") return void shell.signInAgain();
  const change = (members) => {
    state.activity = { ...state.activity, skus: state.activity.skus.map((known) => (known.sku === item.sku ? { ...known, ...members } : known)) };
    renderActivity();
  };
  // One unit can still be waited for.
  if (code === "sold_out" && quantity > 1 && item.waiting !== undefined) change({ left: 0 });
  else if (code === "sold_out") {
    state.refusedAt.set(item.sku, performance.now());
    void gate.refresh();
  }
  if (code === "insufficient_stock") state.quantities.set(cardOf(item), left);
  if (code === "price_changed") {
    change({ price: amount / quantity, currency });
    void gate.refresh();
  }
  // They wait already, perhaps with another device.
  if (code === "limit_reached") ownOrders.noteOrder();
  if (code === "limit_reached" && orderNo) return openOrder({ order_no: orderNo });
  if (code === "limit_reached") {
    state.atLimit = { sku: item.sku, quantity };
    void ownOrders.load();
  }
  // The bar says it.
  if (code !== "limit_reached") showNotice({ tone: CALM.includes(code) ? "calm" : "bad", text: explain(error) });
}
