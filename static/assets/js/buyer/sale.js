// The page of one sale: loads the activity, polls its gate and prepares the ticket.

import { TICKETS_BEFORE_START, client, clock } from "../shared/client.js";
import { byId } from "../shared/dom.js";
import { localized } from "../shared/i18n.js";
import { backoff, poll, randomUpTo, sleep } from "../shared/poll.js";
import { explain, isTransient } from "../shared/problems.js";
import * as session from "../shared/session.js";
import * as shell from "../shared/shell.js";
import { startBar } from "./buy-bar.js";
import { cancelAttempt, findLostOrder, isBuying, obtainTicket, onBuy } from "./buying.js";
import { goToCheck, startCheckBox } from "./human-check.js";
import { showNotice } from "./notice.js";
import * as ownOrders from "./own-orders.js";
import { givenCode, goToCode, startCodeForm } from "./presale-code.js";
import { chosenQuantity, chosenSku, isAllSoldOut, phase, startsAt, state } from "./sale-state.js";
import { render, renderActivity, showAnnouncement, showSale } from "./sale-view.js";
import * as tickets from "./ticket.js";

/** How many times the page soon requests an activity again that was not found. */
const MAX_SOON = 4;

let gate = null;
let misses = 0;
let ticketError = null;

shell.start();
startCheckBox();
const buy = () => void onBuy(chosenSku(), chosenQuantity(), gate);
startBar({
  buy, join: buy, order: buy, check: goToCheck, sign_in: () => void shell.signIn(), switch: shell.switchUser, code: goToCode, orders: () => location.assign("/orders"),
  next: () => location.assign(state.next ? `/sale?activity=${encodeURIComponent(state.next.id)}` : "/"),
});
/** Forgets why there is no ticket: what it was refused for is another now. */
function askAgain() {
  ticketError = null;
  state.refusal = null;
  void prepareTicket();
}
startCodeForm(askAgain);
shell.onSessionChange(() => {
  cancelAttempt();
  showNotice(null);
  ownOrders.reset();
  askAgain();
});
setInterval(render, 100);
ownOrders.start();
addEventListener("online", () => {
  void activityPoller.runNow();
  void gate?.refresh();
});

// Polls the activity with its prices and stock: every 5 to 7 s while it is open and has stock, otherwise every
// 40 to 60 s, and not at all after its end. A change of the gate's version or phase makes it poll earlier.
const activityPoller = poll(async () => {
  try {
    const data = await client.activity(state.id);
    misses = 0;
    adopt(data);
    // Without stock (Redis is unavailable) the activity is shown, and an error of the gate stays visible.
    if (data.skus.some(({ as_of: asOf }) => asOf !== null)) showError(null);
    render();
    void prepareTicket();
    void findNextSale();
    // All pages may notice the change at once: spread their polls of the gate, as after the start.
    if (hasGateChanged(data)) setTimeout(gate.refresh, randomUpTo(state.gate.jitter_ms));
    const phase = state.gate?.phase ?? data.phase;
    if (phase === "ended") return null;
    return phase === "open" && !isAllSoldOut() ? 5_000 + randomUpTo(2_000) : 40_000 + randomUpTo(20_000);
  } catch (error) {
    if (error.code === "not_found") return showMissing();
    showError(error);
    if (error.code === "ended") return null;
    return Math.max(error.retryAfter ?? 0, 2_000 + randomUpTo(3_000));
  }
});

// The server may have written the activity into the page. Its time is too old for the clock.
const first = JSON.parse(byId("first-data")?.textContent ?? "null");
if (first?.activity?.id === state.id) adopt(first.activity);

/** Shows an activity; the first one starts the polling of the gate. */
function adopt(activity) {
  const shownVersion = state.activity?.version;
  state.activity = localized(activity);
  if (activity.version !== shownVersion) renderActivity();
  showSale(true);
  if (gate) return;
  startGateWatch();
  void findLostOrder();
}

/** Starts polling the gate. Called once, when the activity is first known. */
function startGateWatch() {
  gate = client.watchGate(state.id, {
    isAllSoldOut,
    onChange(newGate) {
      const previous = state.gate;
      state.gate = newGate;
      showSale(true);
      showError(null);
      showAnnouncement(newGate.announcement);
      render();
      void findNextSale();
      // The stock has changed, too. The delay spreads the requests of all pages.
      const hasChanged = previous && (previous.phase !== newGate.phase || previous.sold_out.length !== newGate.sold_out.length);
      if (hasChanged) setTimeout(activityPoller.runNow, 500 + randomUpTo(2_500));
      // An operator has changed the activity.
      else if (newGate.version !== state.activity.version) setTimeout(activityPoller.runNow, randomUpTo(newGate.jitter_ms));
    },
    onError: showError,
  });
}

/** Whether the gate is out of date: an operator moved the start, or the device slept past a change of phase. */
const hasGateChanged = ({ phase, starts_at: start }) =>
  state.gate && (phase !== state.gate.phase || start !== state.gate.starts_at);

/** Shows why polling fails; `null` removes the message. A running attempt keeps its own notice. */
function showError(error) {
  if (error === null) showNotice(null, "error");
  else if (error.code === "not_found") showSale(false);
  else if (!isBuying()) showNotice({ tone: "calm", text: explain(error) }, "error");
}

/**
 * Shows that the activity was not found, and returns the delay until the next poll. Retries soon a few times, because a
 * new activity takes a moment to be published everywhere, and rarely after that: it may be published later.
 */
function showMissing() {
  showSale(false);
  misses += 1;
  return misses > MAX_SOON && !state.activity ? 30_000 + randomUpTo(30_000) : backoff(misses);
}

/** Looks once which sale starts next, when this one has nothing left. */
async function findNextSale() {
  const isOver = phase() === "ended" || (phase() === "open" && isAllSoldOut());
  if (!isOver || findNextSale.isDone) return;
  findNextSale.isDone = true;
  // All pages see at once that the last unit is gone.
  await sleep(randomUpTo(state.gate?.jitter_ms ?? 0));
  const sales = await client.activities().catch(() => []);
  const [next] = sales.filter((sale) => sale.phase === "scheduled")
    .sort((a, b) => Date.parse(a.starts_at) - Date.parse(b.starts_at));
  state.next = next ? localized(next) : null;
  render();
}

/** Refusals that another try does not change. */
const FINAL_REFUSALS = ["not_eligible", "banned", "too_many_strikes"];

/** Requests the ticket as soon as it can be issued. A ticket that is issued earlier gives no advantage. */
async function prepareTicket() {
  if (!state.activity || !session.token() || tickets.unusedTicket(state.id) || phase() === "ended") return;
  if (ticketError || clock.millisecondsUntil(startsAt()) > TICKETS_BEFORE_START) return;
  const [user, code] = [session.user(), givenCode()];
  try {
    await obtainTicket();
  } catch (error) {
    // Another user has signed in since, or the visitor has given another code: the error is of neither.
    if (session.user() !== user || givenCode() !== code) return;
    if (error.code === "unauthenticated") return void shell.signInAgain();
    // The gate will say so.
    if (error.code === "ended") return;
    ticketError = error;
    if (isTransient(error) || error.code === "not_open") {
      setTimeout(() => {
        if (ticketError === error) ticketError = null;
        // A hidden page does not poll. When it is shown again, it loads the activity and then prepares the ticket.
        if (!document.hidden) void prepareTicket();
      }, (error.retryAfter ?? 5_000) + randomUpTo(5_000));
    } else if (FINAL_REFUSALS.includes(error.code)) {
      state.refusal = error;
    } else {
      showNotice({ tone: "bad", text: explain(error) });
    }
  }
  render();
}
