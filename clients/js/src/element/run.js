// What `<stampede-buy>` does: one sale, from the countdown to the payment.

import { Aborted, Problem, codeOf } from "../errors.js";
import { createClient } from "../index.js";
import { backoff, poll } from "../timing.js";
import { claimsOf } from "../token.js";
import { contentOf } from "./content.js";
import { watchSession } from "./session.js";

/**
 * @typedef {import("../index.js").Activity} Activity
 * @typedef {import("../index.js").Order} Order
 * @typedef {import("../index.js").Ticket} Ticket
 * @typedef {import("../element.js").StampedeBuy} StampedeBuy
 * @typedef {import("./content.js").Facts} Facts
 * @typedef {import("./content.js").Content} Content
 */

/** How long a refusal "sold out" counts, until the gate lists the SKU. In milliseconds. */
const SOLD_OUT_MS = 3_000;

/** Refusals of a ticket that another request does not change. */
const REFUSED_BUYER = ["not_eligible", "banned", "too_many_strikes"];

/** The statuses of an order that is not over. */
const OPEN_STATUSES = ["waiting", "queued", "pending_payment"];

/** One sale in one element, until its attributes change or it leaves the page. */
export class Run {
  #abort = new AbortController();
  /** @type {Activity | null} */
  #sale = null;
  #refusedAt = -Infinity;
  /** @type {unknown} */
  #loadError = null;
  /** @type {Facts["progress"]} */
  #progress = null;
  /** @type {unknown} */
  #error = null;
  #isUnknown = false;
  /** @type {Order | null} */
  #order = null;
  #isOpening = false;
  /** Ends the polling of the order. @type {AbortController | null} */
  #following = null;
  /** The buyer for whom the ticket was requested. @type {string | null} */
  #buyer = null;
  /** @type {import("../ticket.js").Tickets | null} */
  #tickets = null;

  /** What is shown. @type {Content} */
  #content = /** @type {Content} */ ({});

  /** @param {StampedeBuy} element @param {(content: Content, language: string) => void} show */
  constructor(element, show) {
    this.element = element;
    this.show = show;
    const attribute = (/** @type {string} */ name) => element.getAttribute(name) ?? "";
    this.activity = attribute("activity");
    this.quantity = Math.max(1, Math.trunc(Number(attribute("quantity"))) || 1);
    this.base = new URL(attribute("base-url") || import.meta.url, document.baseURI).origin;
    const url = attribute("session-url");
    this.session = url ? watchSession(new URL(url, document.baseURI).href, () => this.#render()) : null;
    this.client = createClient({ baseUrl: this.base, token: () => this.#token() });
    this.gate = this.client.watchGate(this.activity, {
      onChange: ({ version }) => {
        if (this.#sale && version !== this.#sale.version) void this.loading.runNow();
        this.#render();
      },
      isAllSoldOut: () => this.#isSoldOut(),
    });
    this.loading = this.#load();
    this.clock = setInterval(() => document.hidden || this.#render(), 250);
    this.#render();
  }

  stop() {
    this.#abort.abort();
    this.#following?.abort();
    this.gate.stop();
    this.loading.stop();
    this.session?.stop();
    clearInterval(this.clock);
  }

  #token() {
    const { token } = this.element;
    return (typeof token === "function" ? token() : token) ?? this.session?.token() ?? null;
  }

  #load() {
    let failures = 0;
    return poll(async () => {
      try {
        this.#sale = await this.client.activity(this.activity);
        [failures, this.#loadError] = [0, null];
        // The gate's version says when it has changed, but not that somebody waits.
        return this.#sale.line ? 10_000 : 10 * 60_000;
      } catch (error) {
        this.#loadError = error;
        return codeOf(error) === "not_found" ? 60_000 : backoff((failures += 1));
      } finally {
        this.#render();
      }
    });
  }

  get #sku() {
    const wanted = this.element.getAttribute("sku");
    return this.#sale?.skus.find(({ sku }) => sku === wanted || !wanted);
  }

  #storage() {
    return storageOf(this.#sku?.sku ?? "");
  }

  /** What the storage has the number of another tab's wait by. */
  get #waitKey() {
    return `stampede.wait.${this.activity}`;
  }

  #isSoldOut() {
    if (performance.now() - this.#refusedAt < SOLD_OUT_MS) return true;
    const sku = this.#sku?.sku ?? "";
    return this.gate.current()?.sold_out.includes(sku) ?? false;
  }

  /** Paused and ended by the gate (until its first poll by the activity), open by the server's clock. */
  #phase() {
    const reported = this.gate.current()?.phase ?? this.#sale?.phase ?? "scheduled";
    if (reported === "paused" || reported === "ended") return reported;
    return this.#millisecondsUntil("starts_at") <= 0 ? "open" : "scheduled";
  }

  /** @param {"starts_at" | "ends_at"} time */
  #millisecondsUntil(time) {
    const moment = this.gate.current()?.[time] ?? this.#sale?.[time];
    return moment ? this.client.clock.millisecondsUntil(moment) : NaN;
  }

  /** @returns {import("./content.js").Facts["buyer"]} */
  #whoBuys() {
    if (this.#token()) return "signed_in";
    if (this.session && !this.session.isKnown()) return "unknown";
    return this.session || this.element.token || this.element.hasAttribute("sign-in-url") ? "signed_out" : "elsewhere";
  }

  get #language() {
    return /** @type {HTMLElement | null} */ (this.element.closest("[lang]"))?.lang || navigator.language;
  }

  #render() {
    if (this.#abort.signal.aborted) return;
    if (this.#sale && !this.#progress) this.#prepare();
    const order = this.#order;
    const language = this.#language;
    this.#content = contentOf({
      language, sale: this.#sale, sku: this.#sku, quantity: this.quantity, phase: this.#phase(), isSoldOut: this.#isSoldOut(),
      untilStart: this.#millisecondsUntil("starts_at"), untilEnd: this.#millisecondsUntil("ends_at"),
      untilPay: order?.pay_by ? this.client.clock.millisecondsUntil(order.pay_by) : 0,
      base: this.base, buyer: this.#whoBuys(), signInUrl: this.#signInUrl(), progress: this.#progress,
      error: this.#sale ? this.#error : this.#loadError, isUnknown: this.#isUnknown, order, isOpening: this.#isOpening,
    });
    this.show(this.#content, language);
  }

  /** The shop's page for signing in, which leads back here. */
  #signInUrl() {
    const url = this.element.getAttribute("sign-in-url");
    if (!url) return null;
    const page = new URL(url, document.baseURI);
    page.searchParams.set("return_to", location.href);
    return page.href;
  }

  /** Goes on with what this buyer did before the page was loaded, or else gets their ticket, once for each buyer. */
  #prepare() {
    const token = this.#token();
    const buyer = token && (claimsOf(token).sub ?? "");
    if (buyer === this.#buyer) return;
    this.#buyer = buyer;
    this.#following?.abort();
    [this.#order, this.#error, this.#isUnknown] = [null, null, false];
    if (buyer === null) return;
    this.#tickets = this.client.keepTicket(this.activity, {
      storage: this.#storage(), check: this.#sale?.human_check, signal: this.#abort.signal,
      code: this.element.getAttribute("code") ?? undefined,
      solveCheck: (request) => (this.element.solveCheck ?? solveByWork)(request),
    });
    void this.#resume(this.#tickets);
  }

  /** @param {import("../ticket.js").Tickets} tickets */
  async #resume(tickets) {
    const kept = tickets.kept();
    if (kept?.wanted) await this.#attempt(() => this.client.resume(this.activity, { ...tickets, ...this.#options() }));
    if (this.#order || this.#isUnknown) return;
    // It may have been paid on another page.
    const orderNo = kept?.isUsed ? kept.order_no : this.#storage()?.getItem(this.#waitKey);
    const order = orderNo ? await this.client.order(orderNo, { token: kept?.isUsed ? kept.ticket : null }).catch(() => null) : null;
    if (tickets !== this.#tickets) return;
    if (order?.status === "paid") return this.#update(order);
    if (order && !kept?.isUsed && OPEN_STATUSES.includes(order.status)) return this.#accept({ order });
    await tickets.obtainTicket().catch((error) => {
      // After any other error a click tries again.
      if (tickets === this.#tickets && REFUSED_BUYER.includes(codeOf(error) ?? "")) this.#refuse(error);
    });
  }

  #options() {
    const onStep = (/** @type {import("../index.js").Step} */ step) => {
      this.#progress = step;
      this.#render();
    };
    return { gate: this.gate, signal: this.#abort.signal, onStep };
  }

  /** @param {Event} event */
  click(event) {
    const { action } = this.#content;
    // The page may sign in by itself, and without leaving.
    if (action === "sign_in" && !this.#send("sign-in", {}, true)) event.preventDefault();
    if (action === "pay" && this.#order) void this.#pay(this.#order);
    if (action === "buy") void this.#buy();
  }

  async #buy() {
    const [sku, tickets] = [this.#sku, this.#tickets];
    if (!sku || !tickets || this.#progress) return;
    const amount = sku.price * this.quantity;
    await this.#attempt(() => this.client.buy(this.activity, { sku: sku.sku, quantity: this.quantity, amount, ...tickets, ...this.#options() }));
  }

  /** Shows a running attempt from the click on, and then its outcome. @param {() => Promise<import("../index.js").Outcome | null>} start */
  async #attempt(start) {
    this.#following?.abort();
    [this.#progress, this.#error, this.#isUnknown, this.#order] = [{ step: "ticket" }, null, false, null];
    this.#render();
    try {
      const outcome = await start();
      const order = outcome?.kind === "refused" ? await this.#findWait(outcome.error) : null;
      this.#progress = null;
      if (outcome?.kind === "accepted" || outcome?.kind === "waiting") this.#accept(outcome);
      if (outcome?.kind === "refused" && !order) this.#refuse(outcome.error);
      if (order) this.#accept({ order });
      if (outcome?.kind === "unknown") this.#isUnknown = true;
    } catch {
      [this.#progress, this.#isUnknown] = [null, true];
    }
    this.#render();
  }

  /** The order with which this buyer waits already, from another tab. @param {unknown} error */
  async #findWait(error) {
    if (!(error instanceof Problem) || error.code !== "limit_reached" || !error.orderNo) return null;
    const order = await this.client.order(error.orderNo, { signal: this.#abort.signal }).catch(() => null);
    if (!order || !OPEN_STATUSES.includes(order.status)) return null;
    // For a reload: this tab has no ticket of it.
    this.#storage()?.setItem(this.#waitKey, order.order_no);
    return order;
  }

  /** @param {{ order: Order, ticket?: Ticket }} accepted */
  #accept({ order, ticket }) {
    this.#update(order);
    if (order.status === "waiting") this.#send("waiting", { order, ticket });
    else this.#send("accepted", { order, ticket });
    void this.#follow(order, ticket);
  }

  /** @param {unknown} error */
  #refuse(error) {
    const code = codeOf(error);
    if (code === "sold_out") this.#refusedAt = performance.now();
    else this.#error = error;
    if (code === "price_changed") void this.loading.runNow();
    this.#send("refused", { error, code });
    this.#render();
  }

  /** @param {Order} order @param {Ticket} [ticket] */
  async #follow({ order_no: orderNo }, ticket) {
    const following = (this.#following = new AbortController());
    try {
      for await (const order of this.client.watchOrder(orderNo, { token: () => ticket?.ticket ?? this.#token(), signal: following.signal })) {
        const isOffered = this.#order?.status === "waiting" && ["queued", "pending_payment"].includes(order.status);
        this.#update(order);
        if (isOffered) this.#send("accepted", { order, ticket });
      }
    } catch (error) {
      if (!(error instanceof Aborted)) this.#error = error;
      this.#render();
    }
  }

  /** @param {Order} order */
  #update(order) {
    const wasPaid = this.#order?.status === "paid";
    this.#order = order;
    if (order.status === "paid" && !wasPaid) this.#send("paid", { order });
    this.#render();
  }

  /** @param {Order} order */
  async #pay({ order_no: orderNo, amount }) {
    if (this.#isOpening) return;
    [this.#isOpening, this.#error] = [true, null];
    this.#render();
    try {
      const { checkout_url: url } = await this.client.checkout(orderNo, { language: this.#language, signal: this.#abort.signal });
      // A free order is paid now.
      if (amount > 0) location.assign(new URL(url, this.base).href);
    } catch (error) {
      this.#error = error;
    }
    this.#isOpening = false;
    this.#render();
  }

  /** Whether the page lets what follows happen. @param {string} type @param {object} detail */
  #send(type, detail, cancelable = false) {
    return this.element.dispatchEvent(new CustomEvent(type, { detail, bubbles: true, composed: true, cancelable }));
  }
}

/** @type {import("../ticket.js").SolveCheck} */
async function solveByWork({ challenge }) {
  const work = /** @type {import("../work.js").AltchaChallenge} */ (await challenge({ work: true }));
  const { solveWork } = await import("../work.js");
  return { altcha: await solveWork(work) };
}

/**
 * The tab's storage for one SKU: a page may have an element for each. Undefined where the browser refuses it.
 * @param {string} sku
 * @returns {import("../ticket.js").TicketOptions["storage"]}
 */
function storageOf(sku) {
  try {
    const { sessionStorage: tab } = globalThis;
    return {
      getItem: (key) => tab.getItem(`${key}.${sku}`), setItem: (key, value) => tab.setItem(`${key}.${sku}`, value),
      removeItem: (key) => tab.removeItem(`${key}.${sku}`),
    };
  } catch {
    return undefined;
  }
}
