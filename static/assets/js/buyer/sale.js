// The page of one sale.

import * as api from "../shared/api.js";
import * as clock from "../shared/clock.js";
import { backoff, poll, randomUpTo } from "../shared/poll.js";
import { explain, isTransient } from "../shared/problems.js";
import * as session from "../shared/session.js";
import * as shell from "../shared/shell.js";
import { cancelAttempt, isBuying, obtainTicket, onBuy } from "./buying.js";
import { watchGate } from "./gate.js";
import { showNotice } from "./notice.js";
import { isAllSoldOut, startsAt, state } from "./sale-state.js";
import { render, renderActivity, showSale } from "./sale-view.js";
import * as tickets from "./ticket.js";

/** How often a page asks again for a sale that is not there. */
const MAX_MISSES = 4;

let gate = null;
let misses = 0;
let ticketError = null;

shell.start();
shell.onSessionChange(() => {
  ticketError = null;
  cancelAttempt();
  showNotice(null);
  void prepareTicket();
});
setInterval(render, 100);

// What the sale is, prices and stock: often while it matters, never for a sale that is over or empty.
const activityPoller = poll(async () => {
  try {
    const { data, sentAt, receivedAt } = await api.activity(state.id);
    clock.observe(data.server_time, sentAt, receivedAt);
    const isFirst = state.activity === null;
    state.activity = data;
    misses = 0;
    if (isFirst) startGateWatch();
    showSale(true);
    // While Redis is away the sale is still shown, and the gate's trouble stands.
    if (data.skus.some(({ as_of: asOf }) => asOf !== null)) showError(null);
    render();
    void prepareTicket();
    // A crowd that learns of it at once looks apart, as it does after the start.
    if (hasGateChanged(data)) setTimeout(gate.refresh, randomUpTo(state.gate.jitter_ms));
    if (state.gate?.phase === "ended") return null;
    return state.gate?.phase === "open" && !isAllSoldOut() ? 5_000 + randomUpTo(2_000) : 60_000 + randomUpTo(30_000);
  } catch (error) {
    if (error.code === "not_found") return showMissing();
    showError(error);
    if (error.code === "ended") return null;
    return Math.max(error.retryAfter ?? 0, 2_000 + randomUpTo(3_000));
  }
});

/** The sale is known: describes it, and watches its gate from now on. */
function startGateWatch() {
  gate = watchGate(state.id, {
    skus: state.activity.skus.map(({ sku }) => sku),
    onChange(newGate) {
      const previous = state.gate;
      state.gate = newGate;
      showSale(true);
      showError(null);
      render();
      // The stock is news now; a crowd must not ask for it in one instant.
      const hasChanged = previous && (previous.phase !== newGate.phase || previous.sold_out.length !== newGate.sold_out.length);
      if (hasChanged) setTimeout(activityPoller.runNow, 500 + randomUpTo(2_500));
    },
    onError: showError,
  });
  renderActivity((sku, quantity) => void onBuy(sku, quantity, gate));
}

/** Whether the gate has changed since it was seen: an operator moved the start, or the computer slept through it. */
const hasGateChanged = ({ phase, starts_at: start }) =>
  state.gate && (phase !== state.gate.phase || start !== state.gate.starts_at);

/** Shows what keeps the page from looking, until it can look again. */
function showError(error) {
  if (error === null) showNotice(null, "error");
  else if (error.code === "not_found") showSale(false);
  else if (!isBuying()) showNotice({ tone: "calm", text: explain(error) }, "error");
}

/**
 * There is no such sale; one that was published a moment ago may just not be known everywhere yet, and one that was
 * there comes back.
 */
function showMissing() {
  showSale(false);
  misses += 1;
  return misses > MAX_MISSES && !state.activity ? null : backoff(misses);
}

/** Gets the ticket in good time. Tickets are free: nobody gains by being the first to ask. */
async function prepareTicket() {
  if (!state.activity || !session.token() || tickets.unusedTicket(state.id) || state.gate?.phase === "ended") return;
  if (ticketError || clock.millisecondsUntil(startsAt()) > tickets.TICKETS_BEFORE_START) return;
  const token = session.token();
  try {
    await obtainTicket();
  } catch (error) {
    // It was said to somebody who is gone.
    if (session.token() !== token) return;
    if (error.code === "unauthenticated") return void shell.signInAgain();
    ticketError = error;
    if (isTransient(error) || error.code === "not_open") {
      setTimeout(() => {
        if (ticketError === error) ticketError = null;
        // A hidden page rests; shown again, it looks at the sale, and prepares.
        if (!document.hidden) void prepareTicket();
      }, (error.retryAfter ?? 5_000) + randomUpTo(5_000));
    } else {
      showNotice({ tone: "bad", text: explain(error) });
    }
  }
  render();
}
