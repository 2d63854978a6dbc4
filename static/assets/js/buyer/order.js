// The page of one order: the queue, the payment, the end.

import * as api from "../shared/api.js";
import * as clock from "../shared/clock.js";
import { ask, byId, el, say, show } from "../shared/dom.js";
import { count, countdown, moment, money } from "../shared/format.js";
import { knows, t } from "../shared/i18n.js";
import { backOff, repeat, upTo } from "../shared/poll.js";
import { explain, passes } from "../shared/problems.js";
import * as session from "../shared/session.js";
import * as shell from "../shared/shell.js";
import { showNotice } from "./notice.js";

/** After these nothing moves by itself any more. */
const FINAL = ["paid", "failed", "refunded"];

const number = new URLSearchParams(location.search).get("order_no") ?? "";
const activity = number.slice(0, number.lastIndexOf("."));

let order = null;
let etag = null;
let failures = 0;
let longestQueue = 0;
let watch = null;

shell.start();
shell.onSession(start);
byId("pay-form").addEventListener("submit", pay);
byId("cancel").addEventListener("click", () => void act(api.cancel, "order.cancel_ask", "order.cancel"));
byId("refund").addEventListener("click", () => void act(api.refund, "order.refund_ask", "order.refund"));
setInterval(tick, 250);
// A phone that slept may not know for how long: the sale says what time it is.
document.addEventListener("visibilitychange", () => document.hidden || void nameIt());
void nameIt();
start();

function start() {
  // Nothing of whoever was here before stays.
  watch?.stop();
  order = etag = null;
  show(byId("order"), false);
  show(byId("missing"), false);
  if (!session.orderPass(number)) {
    showNotice({ tone: "calm", text: t("problem.unauthenticated") });
    return void shell.signIn();
  }
  showNotice(null);
  look();
}

function look() {
  watch?.stop();
  watch = repeat(step);
}

async function step() {
  const pass = session.orderPass(number);
  try {
    const answer = await api.orderStatus(number, pass, etag);
    if (session.orderPass(number) !== pass) return null;
    failures = 0;
    if (answer.status !== 304) {
      etag = answer.etag;
      accept(answer.data);
    }
    showNotice(null, "trouble");
    return nextLook(answer.retryAfter);
  } catch (error) {
    if (session.orderPass(number) !== pass) return null;
    if (error.code === "not_found") return missing();
    if (error.code === "unauthenticated") return void shell.signInAgain(), null;
    showNotice({ tone: "calm", text: explain(error) }, "trouble");
    failures += 1;
    return passes(error) ? Math.max(error.retryAfter ?? 0, backOff(failures)) : null;
  }
}

function nextLook(retryAfter) {
  if (FINAL.includes(order.status)) return null;
  const usual = { queued: 1_000, pending_payment: 3_000, refunding: 5_000 }[order.status] ?? 15_000;
  return (retryAfter ?? usual) + upTo(200);
}

function accept(next) {
  const before = order?.status;
  order = next;
  longestQueue = Math.max(longestQueue, order.ahead ?? 0);
  render();
  if (before && before !== order.status) byId("headline").focus({ preventScroll: true });
}

function missing() {
  show(byId("order"), false);
  show(byId("missing"), true);
  return null;
}

/** The sale says what the SKU is called, and what time it is. */
async function nameIt() {
  try {
    const { data, sentAt, receivedAt } = await api.activity(activity);
    clock.observe(data.server_time, sentAt, receivedAt);
    nameIt.names = new Map(data.skus.map((sku) => [sku.sku, sku.name]));
    say(byId("sale-title"), data.title);
    if (order) render();
  } catch {
    // The order stands without its name.
  }
}

function render() {
  show(byId("order"), true);
  const { status } = order;
  document.title = `${t(`status.${status}`)} · Stampede`;
  byId("order").dataset.status = status;
  say(byId("headline"), t(`order.${status}`));
  say(byId("explain"), reason() ?? t(`order.${status}_more`));
  byId("facts").replaceChildren(
    ...facts([
      ["order.item", nameIt.names?.get(order.sku) ?? order.sku],
      ["order.quantity", count(order.quantity)],
      ["order.amount", money(order.amount, order.currency)],
      ["order.number", order.order_no],
      ["order.created", moment(order.created_at)],
      ["order.paid_at", order.paid_at && moment(order.paid_at)],
    ]),
  );
  const unpaid = status === "pending_payment";
  show(byId("queue"), status === "queued");
  show(byId("payment"), unpaid);
  show(byId("pay-form"), unpaid && !order.checkout_url);
  show(byId("to-payment"), unpaid && Boolean(order.checkout_url));
  if (order.checkout_url) byId("to-payment").href = payAt(order.checkout_url);
  say(byId("pay"), t("order.pay", { amount: money(order.amount, order.currency) }));
  show(byId("cancel"), unpaid);
  show(byId("refund"), status === "paid");
  show(byId("again"), ["cancelled", "expired", "failed", "refunded"].includes(status));
  byId("again").href = `/sale?activity=${encodeURIComponent(activity)}`;
  progress();
  tick();
}

function reason() {
  const key = `reason.${order.reason}`;
  return order.reason && order.status !== "paid" && knows(key) ? t(key) : null;
}

function facts(rows) {
  return rows.filter(([, value]) => value).flatMap(([key, value]) => [el("dt", {}, t(key)), el("dd", {}, value)]);
}

function progress() {
  const { ahead = 0, estimated_wait_ms: wait = 0 } = order;
  say(byId("ahead"), ahead > 0 ? t("order.ahead", { ahead: count(ahead) }) : t("order.next"));
  say(byId("wait"), wait > 1_000 ? t("order.wait", { time: countdown(wait) }) : "");
  byId("queue-fill").style.setProperty("--share", longestQueue ? 1 - ahead / longestQueue : 1);
}

function tick() {
  if (order?.status !== "pending_payment" || !clock.isSet()) return;
  const left = clock.until(order.pay_by);
  say(byId("pay-left"), countdown(left));
  byId("payment").classList.toggle("is-urgent", left < 60_000);
  // The time is up by the server's clock: ask it, once.
  if (left <= 0 && tick.asked !== order.pay_by) {
    tick.asked = order.pay_by;
    look();
  }
}

async function pay(event) {
  event.preventDefault();
  const button = byId("pay");
  button.disabled = true;
  showNotice({ tone: "busy", text: t("order.opening") });
  try {
    const token = await shell.signIn();
    if (!token) return;
    const address = Object.fromEntries(new FormData(byId("pay-form")));
    const { data } = await api.checkout(number, token, address);
    location.assign(payAt(data.checkout_url));
  } catch (error) {
    failed(error);
  } finally {
    button.disabled = false;
  }
}

async function act(call, question, yes) {
  if (!(await ask(t(question), t(yes), t("order.keep")))) return;
  const token = await shell.signIn();
  if (!token) return;
  showNotice({ tone: "busy", text: t("order.working") });
  try {
    const { data } = await call(number, token);
    etag = null;
    showNotice(null);
    if (data?.status) accept(data);
    look();
  } catch (error) {
    failed(error);
  }
}

function failed(error) {
  if (error.code === "unauthenticated") return void shell.signInAgain();
  showNotice({ tone: passes(error) ? "calm" : "bad", text: error.errors?.[0]?.detail ?? explain(error) });
  // The order may have moved on without this page.
  if (error.code === "state_conflict") look();
}

/**
 * Where to pay: only ever an address of the web, whatever a provider says. Our own sandbox is told
 * where to go back to; a provider knows it from the session.
 */
function payAt(url) {
  const target = new URL(url, location.href);
  if (target.origin === location.origin) {
    target.searchParams.set("return", `/order?order_no=${encodeURIComponent(number)}`);
    return target.href;
  }
  return target.protocol === "https:" ? target.href : "#";
}
