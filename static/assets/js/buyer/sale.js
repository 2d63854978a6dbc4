// The page of one sale.

import * as api from "../shared/api.js";
import * as clock from "../shared/clock.js";
import { byId, el, picture, say, show } from "../shared/dom.js";
import { count, moment } from "../shared/format.js";
import { t } from "../shared/i18n.js";
import { repeat, upTo } from "../shared/poll.js";
import { explain } from "../shared/problems.js";
import * as session from "../shared/session.js";
import * as shell from "../shared/shell.js";
import { buy } from "./attempt.js";
import { showCountdown } from "./countdown.js";
import { watchGate } from "./gate.js";
import { showNotice } from "./notice.js";
import { skuCard } from "./sku-card.js";
import * as tickets from "./ticket.js";

/** A click holds the button for this long at most. */
const HOLD = 10_000;

/** A refusal "sold out" counts until the gate had time to say so itself. */
const FRESH_REFUSAL = 3_000;

const id = new URLSearchParams(location.search).get("activity") ?? "";
const cards = new Map();
const refusedAt = new Map();

let sale = null;
let gate = null;
let attempt = null;
let heldUntil = 0;
let ticketTrouble = null;

shell.start();
shell.onSession(() => {
  ticketTrouble = null;
  giveUp();
  showNotice(null);
  render();
  void prepare();
});

const watch = watchGate(id, {
  skus: () => [...cards.keys()],
  onChange(next) {
    gate = next;
    render();
    showNotice(null, "trouble");
  },
  onTrouble(error) {
    if (error.code === "not_found") missing();
    else if (!attempt) showNotice({ tone: "calm", text: explain(error) }, "trouble");
  },
});

// Prices and stock: often while it matters, never for a sale that is over or empty.
repeat(async () => {
  try {
    const { data, sentAt, receivedAt } = await api.activity(id);
    clock.observe(data.server_time, sentAt, receivedAt);
    const first = sale === null;
    sale = data;
    if (first) describe();
    render();
    void prepare();
    if (gate?.phase === "ended") return null;
    return gate?.phase === "open" && !gate.all_sold_out ? 5_000 + upTo(2_000) : 60_000 + upTo(30_000);
  } catch (error) {
    if (error.code === "not_found") return missing();
    return Math.max(error.retryAfter ?? 0, 2_000 + upTo(3_000));
  }
});

setInterval(render, 100);

function missing() {
  show(byId("sale"), false);
  show(byId("missing"), true);
  return null;
}

function describe() {
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
  show(byId("sale"), true);
  void watch.look();
}

/** Gets the ticket in good time. Tickets are free: nobody gains by being the first to ask. */
async function prepare() {
  if (!sale || !session.token() || !clock.isSet() || tickets.held(id) || gate?.phase === "ended") return;
  if (clock.until(sale.starts_at) > tickets.EARLY || ticketTrouble) return;
  try {
    await ticket();
  } catch (error) {
    if (error.code === "unauthenticated") return void shell.signInAgain();
    ticketTrouble = error;
    if (["rate_limited", "overloaded", "paused", "not_ready", "not_open"].includes(error.code)) {
      setTimeout(() => (ticketTrouble = null), (error.retryAfter ?? 5_000) + upTo(5_000));
    } else {
      showNotice({ tone: "bad", text: explain(error) });
    }
  }
  render();
}

const ticket = () =>
  tickets.ensure(id, {
    check: sale.human_check,
    place: byId("check"),
    onCheck: (text) => say(byId("check-status"), text),
  });

async function onBuy(sku, quantity) {
  // At once, before anything can wait: a second click finds a disabled button.
  giveUp();
  heldUntil = performance.now() + HOLD;
  render();
  if (!session.token()) {
    showNotice(null);
    if (!(await shell.signIn())) return giveUp();
    heldUntil = performance.now() + HOLD;
  }
  const mine = (attempt = new AbortController());
  const report = (state) => attempt === mine && progress(state);
  try {
    const done = await buy({ activity: id, sku, quantity, ticket, gate: watch, report, signal: mine.signal });
    if (attempt === mine) await finish(done, sku);
  } catch (error) {
    if (attempt === mine) showNotice({ tone: "bad", text: explain(error) });
  } finally {
    if (attempt === mine) giveUp();
  }
}

/** Ends the attempt that is under way, if any. Its ticket stays: whatever it reached, the next try finds. */
function giveUp() {
  attempt?.abort(new Error("given up"));
  attempt = null;
  heldUntil = 0;
  render();
}

function progress({ step, error, until }) {
  if (step !== "waiting") return showNotice({ tone: "busy", text: t(`attempt.${step}`) });
  showNotice({ tone: "calm", text: explain(error), until });
}

async function finish(done, sku) {
  if (done.kind === "accepted") {
    showNotice({ tone: "good", text: t("attempt.accepted") });
    location.assign(`/order?order_no=${encodeURIComponent(done.order.order_no)}`);
    return;
  }
  if (done.kind === "look") {
    return showNotice({ tone: "calm", text: t("attempt.look"), link: ["/orders", t("nav.orders")] });
  }
  const { code } = done.error;
  if (code === "unauthenticated") return void shell.signInAgain();
  if (code === "sold_out") {
    refusedAt.set(sku, performance.now());
    void watch.look();
  }
  const link = code === "limit_reached" ? ["/orders", t("nav.orders")] : undefined;
  showNotice({ tone: code === "sold_out" || code === "ended" ? "calm" : "bad", text: explain(done.error), link });
}

function render() {
  if (!sale || !clock.isSet()) return;
  const left = clock.until(gate?.starts_at ?? sale.starts_at);
  const phase = phaseNow(left);
  showCountdown(phase, phase === "open" ? clock.until(gate?.ends_at ?? sale.ends_at) : left);
  const held = performance.now() < heldUntil;
  for (const stock of sale.skus) {
    const soldOut = isSoldOut(stock);
    const enabled = phase === "open" && !soldOut && !held;
    cards.get(stock.sku)?.update({ stock, soldOut, enabled, label: label(phase, soldOut, held) });
  }
  steps(phase);
}

// The clock opens the sale to the instant; the gate says everything else.
function phaseNow(left) {
  const said = gate?.phase ?? sale.phase;
  if (said === "paused" || said === "ended") return said;
  return left <= 0 ? "open" : "scheduled";
}

function isSoldOut({ sku, total, left }) {
  if (performance.now() - (refusedAt.get(sku) ?? -Infinity) < FRESH_REFUSAL) return true;
  return gate ? gate.sold_out.includes(sku) : total >= 0 && left === 0 && sale.phase === "open";
}

function label(phase, soldOut, held) {
  if (phase === "ended") return t("sale.ended");
  if (soldOut && phase === "open") return t("sale.sold_out");
  if (phase === "paused") return t("sale.paused");
  if (phase === "scheduled") return t("sale.not_yet");
  return held ? t("sale.held") : t("sale.buy");
}

function steps(phase) {
  const open = clock.until(sale.starts_at) <= tickets.EARLY;
  const ready = tickets.held(id) !== null;
  const toDo = !ready || phase !== "open";
  const states = { "step-sign-in": session.token() !== null, "step-ticket": ready, "step-start": phase === "open" };
  for (const [step, done] of Object.entries(states)) byId(step).classList.toggle("is-done", done);
  say(byId("step-ticket-text"), ready ? t("steps.ticket_ready") : open ? t("steps.ticket") : t("steps.ticket_later"));
  show(byId("steps"), phase !== "ended" && toDo);
  show(byId("paused"), phase === "paused");
}
