// The page of one sale.

import * as api from "../shared/api.js";
import * as clock from "../shared/clock.js";
import { backOff, repeat, upTo } from "../shared/poll.js";
import { explain, passes } from "../shared/problems.js";
import * as session from "../shared/session.js";
import * as shell from "../shared/shell.js";
import { giveUp, isTrying, onBuy, ticket } from "./buying.js";
import { watchGate } from "./gate.js";
import { showNotice } from "./notice.js";
import { isEmpty, startsAt, state } from "./sale-state.js";
import { describe, render, showSale } from "./sale-view.js";
import * as tickets from "./ticket.js";

/** How often a page asks again for a sale that is not there. */
const MOST_MISSES = 4;

let gate = null;
let misses = 0;
let ticketTrouble = null;

shell.start();
shell.onSession(() => {
  ticketTrouble = null;
  giveUp();
  showNotice(null);
  void prepare();
});
setInterval(render, 100);

// What the sale is, prices and stock: often while it matters, never for a sale that is over or empty.
const facts = repeat(async () => {
  try {
    const { data, sentAt, receivedAt } = await api.activity(state.id);
    clock.observe(data.server_time, sentAt, receivedAt);
    const first = state.sale === null;
    state.sale = data;
    misses = 0;
    if (first) watch();
    showSale(true);
    // While Redis is away the sale is still shown, and the gate's trouble stands.
    if (data.skus.some(({ as_of: asOf }) => asOf !== null)) trouble(null);
    render();
    void prepare();
    // A crowd that learns of it at once looks apart, as it does after the start.
    if (isNews(data)) setTimeout(gate.look, upTo(state.gate.jitter_ms));
    if (state.gate?.phase === "ended") return null;
    return state.gate?.phase === "open" && !isEmpty() ? 5_000 + upTo(2_000) : 60_000 + upTo(30_000);
  } catch (error) {
    if (error.code === "not_found") return missing();
    trouble(error);
    if (error.code === "ended") return null;
    return Math.max(error.retryAfter ?? 0, 2_000 + upTo(3_000));
  }
});

/** The sale is known: describes it, and watches its gate from now on. */
function watch() {
  gate = watchGate(state.id, {
    skus: state.sale.skus.map(({ sku }) => sku),
    onChange(next) {
      const before = state.gate;
      state.gate = next;
      showSale(true);
      trouble(null);
      render();
      // The stock is news now; a crowd must not ask for it in one instant.
      const turned = before && (before.phase !== next.phase || before.sold_out.length !== next.sold_out.length);
      if (turned) setTimeout(facts.now, 500 + upTo(2_500));
    },
    onTrouble: trouble,
  });
  describe((sku, quantity) => void onBuy(sku, quantity, gate));
}

/** Whether the gate has changed since it was seen: an operator moved the start, or the computer slept through it. */
const isNews = ({ phase, starts_at: start }) =>
  state.gate && (phase !== state.gate.phase || start !== state.gate.starts_at);

/** Shows what keeps the page from looking, until it can look again. */
function trouble(error) {
  if (error === null) showNotice(null, "trouble");
  else if (error.code === "not_found") showSale(false);
  else if (!isTrying()) showNotice({ tone: "calm", text: explain(error) }, "trouble");
}

/**
 * There is no such sale; one that was published a moment ago may just not be known everywhere yet, and one that was
 * there comes back.
 */
function missing() {
  showSale(false);
  misses += 1;
  return misses > MOST_MISSES && !state.sale ? null : backOff(misses);
}

/** Gets the ticket in good time. Tickets are free: nobody gains by being the first to ask. */
async function prepare() {
  if (!state.sale || !session.token() || tickets.held(state.id) || state.gate?.phase === "ended") return;
  if (ticketTrouble || clock.until(startsAt()) > tickets.EARLY) return;
  const token = session.token();
  try {
    await ticket();
  } catch (error) {
    // It was said to somebody who is gone.
    if (session.token() !== token) return;
    if (error.code === "unauthenticated") return void shell.signInAgain();
    ticketTrouble = error;
    if (passes(error) || error.code === "not_open") {
      setTimeout(() => {
        if (ticketTrouble === error) ticketTrouble = null;
        // A hidden page rests; shown again, it looks at the sale, and prepares.
        if (!document.hidden) void prepare();
      }, (error.retryAfter ?? 5_000) + upTo(5_000));
    } else {
      showNotice({ tone: "bad", text: explain(error) });
    }
  }
  render();
}
