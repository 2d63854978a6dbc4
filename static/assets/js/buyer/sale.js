// The page of one sale.

import * as api from "../shared/api.js";
import * as clock from "../shared/clock.js";
import { repeat, upTo } from "../shared/poll.js";
import { explain } from "../shared/problems.js";
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

/** Refusals of a ticket that pass by themselves. */
const PASSING = ["rate_limited", "overloaded", "paused", "not_ready", "not_open"];

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
    trouble(null);
    render();
    void prepare();
    if (state.gate?.phase === "ended") return null;
    return state.gate?.phase === "open" && !isEmpty() ? 5_000 + upTo(2_000) : 60_000 + upTo(30_000);
  } catch (error) {
    if (error.code === "not_found") return missing();
    trouble(error);
    return Math.max(error.retryAfter ?? 0, 2_000 + upTo(3_000));
  }
});

/** The sale is known: describes it, and watches its gate from now on. */
function watch() {
  const gate = watchGate(state.id, {
    skus: state.sale.skus.map(({ sku }) => sku),
    onChange(next) {
      const before = state.gate;
      state.gate = next;
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

/** Shows what keeps the page from looking, until it can look again. */
function trouble(error) {
  if (error === null) showNotice(null, "trouble");
  else if (error.code === "not_found") missing();
  else if (!isTrying()) showNotice({ tone: "calm", text: explain(error) }, "trouble");
}

/** There is no such sale; one that was published a moment ago may just not be known everywhere yet. */
function missing() {
  showSale(false);
  misses += 1;
  return misses > MOST_MISSES ? null : 1_000 * misses + upTo(1_000);
}

/** Gets the ticket in good time. Tickets are free: nobody gains by being the first to ask. */
async function prepare() {
  if (!state.sale || !session.token() || tickets.held(state.id) || state.gate?.phase === "ended") return;
  if (ticketTrouble || clock.until(startsAt()) > tickets.EARLY) return;
  try {
    await ticket();
  } catch (error) {
    if (error.code === "unauthenticated") return void shell.signInAgain();
    ticketTrouble = error;
    if (PASSING.includes(error.code)) {
      setTimeout(() => (ticketTrouble = null), (error.retryAfter ?? 5_000) + upTo(5_000));
    } else {
      showNotice({ tone: "bad", text: explain(error) });
    }
  }
  render();
}
