// A fake of Stripe's API: keeps sessions and refunds in memory and records every request.

import { createServer } from "node:http";

import { variable } from "./app.js";

/** The steps of amounts in currencies that Stripe does not charge in each of its units. */
const STEPS = { isk: 100, ugx: 100, bhd: 10, jod: 10, kwd: 10, omr: 10, tnd: 10 };

/** The fake, which listens on the port that the app uses for Stripe. */
export class StripeServer {
  requests = [];
  /** Where its payment pages are. */
  pages = "https://checkout.stripe.example";
  /** Called with each session that is paid on its page. */
  onPaid = () => {};
  sessions = new Map();
  refunds = new Map();
  /** What was refunded of a payment in Stripe's dashboard. */
  byHand = new Map();
  /**
   * Failures for the next requests, in order: a status, `[status, headers, document]`, `"hang up"`, or `{ kept, path }`: a
   * status for the next request with this end of its path, repeated to every request with the same idempotency key.
   */
  failures = [];
  #responsesByKey = new Map();
  // Node's default keep-alive timeout of five seconds could close a connection just when the app reuses it.
  #server = createServer({ keepAliveTimeout: 120_000 }, (request, response) => this.#handle(request, response));

  async start() {
    await new Promise((resolve) => this.#server.listen(Number(variable("PORT_STRIPE")), "127.0.0.1", resolve));
    return this;
  }

  stop() {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(resolve));
  }

  /** The requests whose path or form contains the name of an order, a session or a payment. */
  requestsNaming(name) {
    return this.requests.filter((request) => JSON.stringify([request.path, request.form]).includes(name));
  }

  /** The sessions of an order, oldest first. */
  sessionsOf(order) {
    return [...this.sessions.values()].filter((session) => session.client_reference_id === order);
  }

  /** The last session of an order. */
  lastSessionOf(order) {
    return this.sessionsOf(order).at(-1);
  }

  /** The buyer pays on Stripe's page. */
  pay(session) {
    Object.assign(session, { status: "complete", payment_status: "paid", payment_intent: `pi_${session.id}` });
  }

  /** The session expires at Stripe. */
  expire(session) {
    Object.assign(session, { status: "expired", url: null });
  }

  /** The buyer completes the session, and the bank declines the payment. */
  decline(session) {
    Object.assign(session, { status: "complete", payment_status: "unpaid", payment_intent: `pi_${session.id}`, url: null });
  }

  async #handle(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    const form = [...new URLSearchParams(body)].sort(([a], [b]) => (a < b ? -1 : 1));
    const path = new URL(request.url, "http://stripe.test").pathname;
    const received = { method: request.method, path, headers: request.headers, form, body };
    this.requests.push(received);
    const next = this.failures.findIndex((failure) => path.endsWith(failure.path ?? ""));
    const [failure] = next < 0 ? [] : this.failures.splice(next, 1);
    if (failure === "hang up") return request.socket.destroy();
    const key = request.headers["idempotency-key"];
    if (failure && !(failure.kept && key)) {
      const [status, headers, document] = Array.isArray(failure) ? failure : [failure.kept ?? failure, {}, undefined];
      return reply(response, status, document ?? { error: { type: "api_error", message: "trouble" } }, headers);
    }
    if (!key) return reply(response, ...this.#answer(received));
    // As Stripe does: the same idempotency key replays the first response; with other parameters it is an error.
    const replay = this.#responsesByKey.get(key);
    if (replay && replay.form !== JSON.stringify(form)) {
      return reply(response, 400, { error: { type: "idempotency_error", message: `other parameters for ${key}` } });
    }
    if (replay) return reply(response, ...replay.answer, { "idempotent-replayed": "true" });
    const trouble = [failure?.kept, { error: { type: "api_error", message: "trouble" } }];
    const answer = failure ? trouble : structuredClone(this.#answer(received));
    this.#responsesByKey.set(key, { form: JSON.stringify(form), answer });
    return reply(response, ...answer);
  }

  /** What the button of a payment page does. */
  #pressPay(session) {
    if (session?.status !== "open") return [409, {}];
    this.pay(session);
    this.onPaid(session);
    return [200, {}];
  }

  /** What is left to refund of the payment of a session. */
  #left(paid) {
    if (!paid) return Infinity;
    const payment = paid.payment_intent;
    const made = [...this.refunds.values()].filter((refund) => refund.payment_intent === payment);
    return made.reduce((left, { amount }) => left - amount, paid.amount_total - (this.byHand.get(payment) ?? 0));
  }

  #answer({ method, path, form }) {
    const field = (name) => form.find(([fieldName]) => fieldName === name)?.[1];
    const [, version, kind, ...rest] = path.split("/");
    if (version === "c" && method === "POST") return this.#pressPay(this.sessions.get(rest[0]));
    if (version !== "v1") return notFound(path);
    if (method === "POST" && path === "/v1/checkout/sessions") {
      const id = `cs_test_${this.sessions.size + 1}${Math.random().toString(36).slice(2)}`;
      const amount = Number(field("line_items[0][price_data][unit_amount]")) * Number(field("line_items[0][quantity]"));
      const currency = field("line_items[0][price_data][currency]");
      if (amount % (STEPS[currency] ?? 1)) {
        return [400, { error: { type: "invalid_request_error", message: `no part of ${currency}: ${amount}` } }];
      }
      const session = {
        id,
        object: "checkout.session",
        amount_total: amount,
        client_reference_id: field("client_reference_id"),
        currency,
        expires_at: Number(field("expires_at")),
        metadata: { order_no: field("metadata[order_no]") },
        payment_intent: null,
        payment_status: "unpaid",
        status: "open",
        url: `${this.pages}/c/pay/${id}`,
      };
      this.sessions.set(id, session);
      return [200, session];
    }
    if (kind === "checkout" && this.sessions.has(rest[1])) {
      const session = this.sessions.get(rest[1]);
      if (method === "GET") return [200, session];
      if (session.status !== "open") {
        const message = `This Session is not in one of the expected states: open`;
        return [400, { error: { type: "invalid_request_error", message } }];
      }
      session.status = "expired";
      return [200, session];
    }
    if (method === "POST" && path === "/v1/refunds") {
      const paid = [...this.sessions.values()].find((session) => session.payment_intent === field("payment_intent"));
      const amount = Number(field("amount"));
      if (amount > this.#left(paid)) return [400, { error: { type: "invalid_request_error", param: "amount" } }];
      const refund = {
        id: `re_${this.refunds.size + 1}${Math.random().toString(36).slice(2)}`,
        object: "refund",
        amount,
        currency: paid?.currency ?? "eur",
        metadata: { order_no: field("metadata[order_no]") },
        payment_intent: field("payment_intent"),
        status: "pending",
      };
      this.refunds.set(refund.id, refund);
      return [200, refund];
    }
    const paid = kind === "payment_intents" && [...this.sessions.values()].find((session) => session.payment_intent === rest[0]);
    if (paid) {
      const charge = { id: `ch_${paid.id}`, amount: paid.amount_total, currency: paid.currency };
      return [200, { id: rest[0], latest_charge: { ...charge, amount_refunded: paid.amount_total - this.#left(paid) } }];
    }
    if (kind === "refunds" && this.refunds.has(rest[0])) return [200, this.refunds.get(rest[0])];
    return notFound(path);
  }
}

const notFound = (path) => [404, { error: { type: "invalid_request_error", message: `Unrecognized request URL ${path}` } }];

function reply(response, status, document, headers = {}) {
  const text = JSON.stringify(document);
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(text), ...headers });
  response.end(text);
}
