// Payments by Stripe: our requests compared with those of the official library, its signatures on our callbacks (E1–E5).

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import Stripe from "stripe";

import { address, ask, buy, call, eventually, operate, publish, signIn, sweep, untilOrder, variable } from "./support/app.js";
import { StripeServer } from "./support/stripe-server.js";
import { Shop } from "./support/shop.js";

const server = new StripeServer();
const shop = new Shop();
const key = variable("STRIPE_API_KEY");
const library = new Stripe(key, {
  host: "127.0.0.1",
  port: variable("PORT_STRIPE"),
  protocol: "http",
  maxNetworkRetries: 0,
  telemetry: false,
});

before(() => Promise.all([server.start(), shop.start()]));
after(() => Promise.all([server.stop(), shop.stop()]));

const checkout = (order, { token }) => ask("POST", `/api/orders/${order.order_no}/checkout`, { token, body: { address } });

/** An order with an open session. */
async function checkedOut(changes, quantity) {
  const ada = await signIn();
  const order = await buy(await publish(changes), ada, quantity);
  const { status, document } = await checkout(order, ada);
  assert.equal(status, 200, JSON.stringify(document));
  return { ada, order, session: server.sessionOf(order.order_no), document };
}

/** Signs an event as the official library does for tests, and sends it. */
async function callBack(type, object, { secret = variable("STRIPE_SECRET"), timestamp } = {}) {
  const id = `evt_${Math.random().toString(36).slice(2)}`;
  const payload = JSON.stringify({ id, object: "event", type, api_version: "2026-10-28.endive", data: { object } });
  const header = library.webhooks.generateTestHeaderString({ payload, secret, timestamp });
  return ask("POST", "/api/payments/stripe", { body: payload, headers: { "stripe-signature": header } });
}

/** A paid order whose buyer wants the money back, and Stripe has been asked; `refunds` are those it knows. */
async function refunding() {
  const { ada, order, session } = await checkedOut();
  server.pay(session);
  await callBack("checkout.session.completed", session);
  await untilOrder(order.order_no, "paid", ada);
  await call("POST", `/api/orders/${order.order_no}/refund`, { token: ada.token, body: {} });
  return { ada, order, session, refunds: await refundsOf(session.payment_intent) };
}

/** The refunds of a payment that Stripe knows: sweeps until it has been asked for one. */
const refundsOf = (payment) =>
  eventually(`a refund of ${payment}`, async () => {
    await sweep();
    const value = [...server.refunds.values()].filter((known) => known.payment_intent === payment);
    return { done: value.length > 0, value };
  });

/** What matters of a request on the wire. */
const onTheWire = ({ method, path, headers, form }) => ({
  method,
  path,
  form,
  authorization: headers.authorization,
  contentType: headers["content-type"],
  version: headers["stripe-version"],
  idempotency: headers["idempotency-key"],
});

test("a session is opened in the words of the official library", async () => {
  const { order, session, document } = await checkedOut({}, 2);
  assert.equal(document.checkout_url, session.url);
  const [ours] = server.about(order.order_no);
  const back = `https://shop.example/sale?activity=${order.order_no.split(".")[0]}`;
  await library.checkout.sessions.create(
    {
      mode: "payment",
      client_reference_id: order.order_no,
      line_items: [
        { quantity: 2, price_data: { currency: "eur", unit_amount: 1_999, product_data: { name: "item" } } },
      ],
      metadata: { order_no: order.order_no },
      payment_intent_data: { metadata: { order_no: order.order_no } },
      success_url: back,
      cancel_url: back,
      expires_at: Math.floor(Date.parse(order.pay_by) / 1_000) + 31 * 60,
    },
    { idempotencyKey: `checkout_${order.order_no}` },
  );
  assert.deepEqual(onTheWire(ours), onTheWire(server.requests.at(-1)));
  assert.equal(server.about(order.order_no).length, 2, "asked once by each");
  assert.equal(server.sessionsOf(order.order_no).length, 1);
});

test("checking out again, also at the same moment, gives the same session", async () => {
  const { ada, order, document } = await checkedOut();
  const again = await Promise.all(Array.from({ length: 10 }, () => checkout(order, ada)));
  for (const answer of again) assert.deepEqual(answer.document, document);
});

for (const [how, type, end] of [
  ["expires", "checkout.session.expired", (session) => server.expire(session)],
  ["is declined by a bank", "checkout.session.async_payment_failed", (session) => server.decline(session)],
]) {
  test(`a session that ${how} early is shown to nobody, and the next checkout opens another one`, async () => {
    const { ada, order, session, document } = await checkedOut();
    end(session);
    assert.equal((await callBack(type, session)).status, 204);
    const seen = await call("GET", `/api/orders/${order.order_no}`, { token: ada.token });
    assert.deepEqual([seen.status, seen.checkout_url], ["pending_payment", undefined]);
    const [listed] = await call("GET", "/api/orders", { token: ada.token });
    assert.deepEqual([listed.order_no, listed.checkout_url], [order.order_no, undefined]);

    const again = await Promise.all(Array.from({ length: 5 }, () => checkout(order, ada)));
    const [first, second, ...more] = server.sessionsOf(order.order_no);
    assert.deepEqual([first.id, more.length], [session.id, 0]);
    for (const answer of again) {
      assert.deepEqual([answer.status, answer.document.checkout_url], [200, second.url]);
      assert.equal(answer.document.pay_by, document.pay_by, "extended once");
    }
    const opened = server.about(order.order_no).filter(({ path }) => path === "/v1/checkout/sessions");
    const keys = new Set(opened.map(({ headers }) => headers["idempotency-key"]));
    assert.deepEqual([...keys], [`checkout_${order.order_no}`, `checkout_${order.order_no}_2`]);

    // Stripe tells of the first one again: the second one stays, and is paid.
    assert.equal((await callBack(type, session)).status, 204);
    const still = await call("GET", `/api/orders/${order.order_no}`, { token: ada.token });
    assert.equal(still.checkout_url, second.url);
    server.pay(second);
    assert.equal((await callBack("checkout.session.completed", second)).status, 204);
    await untilOrder(order.order_no, "paid", ada);
  });
}

test("the library's own test signature pays an order, once", async () => {
  const { ada, order, session } = await checkedOut();
  server.pay(session);
  const { data } = { data: { ...session } };
  for (const options of [{ secret: "whsec_other" }, { timestamp: Math.floor(Date.now() / 1_000) - 301 }]) {
    const { status, document } = await callBack("checkout.session.completed", data, options);
    assert.deepEqual([status, document.code], [401, "signature_invalid"]);
  }
  for (let times = 0; times < 3; times += 1) {
    assert.equal((await callBack("checkout.session.completed", data)).status, 204);
  }
  await untilOrder(order.order_no, "paid", ada);
  assert.equal((await callBack("checkout.session.async_payment_failed", { ...data, payment_status: "unpaid" })).status, 204);
  assert.equal((await callBack("customer.created", { id: "cus_1" })).status, 204);
  await untilOrder(order.order_no, "paid", ada);
});

test("a wrong amount is held for an operator, who gives it back", async () => {
  const { ada, order, session } = await checkedOut();
  const paid = { ...session, payment_status: "paid", payment_intent: `pi_${session.id}`, amount_total: 1 };
  assert.equal((await callBack("checkout.session.completed", paid)).status, 204);
  await untilOrder(order.order_no, "pending_payment", ada);
  const held = (await operate("GET", "/callbacks")).filter((callback) => callback.order_no === order.order_no);
  assert.deepEqual([held.length, held[0].outcome, held[0].amount], [1, "wrong_amount", 1]);
  await operate("POST", `/callbacks/${held[0].id}/refund`, {});
  const [refund] = await refundsOf(`pi_${session.id}`);
  assert.equal(refund.amount, 1);
  assert.equal((await callBack("refund.updated", { ...refund, status: "succeeded" })).status, 204);
  const open = await operate("GET", "/refunds");
  assert.deepEqual(open.filter((known) => known.order_no === order.order_no), []);
});

test("a refund is asked for in the words of the official library, and is done when Stripe says so", async () => {
  const { ada, order, session, refunds } = await refunding();
  const [ours] = server.about(session.payment_intent);
  await library.refunds.create(
    { payment_intent: session.payment_intent, amount: order.amount, metadata: { order_no: order.order_no } },
    { idempotencyKey: `refund_${order.order_no}_${session.payment_intent}_0` },
  );
  assert.deepEqual(onTheWire(ours), onTheWire(server.requests.at(-1)));
  const [refund] = refunds;
  await untilOrder(order.order_no, "refunding", ada);
  assert.equal((await callBack("refund.updated", { ...refund, status: "pending" })).status, 204);
  await untilOrder(order.order_no, "refunding", ada);
  const charge = { id: "ch_1", metadata: { order_no: order.order_no }, payment_intent: session.payment_intent };
  const whole = { ...charge, amount: order.amount, amount_refunded: order.amount, refunded: true, currency: "eur" };
  assert.equal((await callBack("charge.refunded", whole)).status, 204);
  assert.equal((await callBack("refund.updated", { ...refund, status: "succeeded" })).status, 204);
  await untilOrder(order.order_no, "refunded", ada);
});

test("a refund that failed is asked for anew, as another one", async () => {
  const { order, refunds } = await refunding();
  assert.equal(refunds.length, 1);
  const failed = { ...refunds[0], status: "failed", failure_reason: "lost_or_stolen_card" };
  // Stripe says so twice, under two names.
  for (const type of ["refund.failed", "refund.updated"]) assert.equal((await callBack(type, failed)).status, 204);
  const [stuck] = (await operate("GET", "/refunds")).filter((known) => known.order_no === order.order_no);
  assert.deepEqual([stuck.state, stuck.last_error], ["requested", "the provider said no"]);
});

test("trouble at Stripe is asked about again, under the same key", async () => {
  const ada = await signIn();
  const order = await buy(await publish(), ada);
  server.troubles.push(500, "hang up");
  assert.equal((await checkout(order, ada)).status, 200);
  const asked = server.about(order.order_no);
  assert.equal(asked.length, 3);
  assert.equal(new Set(asked.map(({ headers }) => headers["idempotency-key"])).size, 1);
  assert.equal(new Set(asked.map(({ body }) => body)).size, 1);
});

test("a Stripe that stays away fails nothing: the order is held, and the next try succeeds", async () => {
  const ada = await signIn();
  const order = await buy(await publish(), ada);
  server.troubles.push(503, 503, 503);
  const away = await checkout(order, ada);
  assert.deepEqual([away.status, away.document.code], [503, "not_ready"]);
  server.troubles.push([429, { "retry-after": "7" }, undefined]);
  const busy = await checkout(order, ada);
  assert.deepEqual([busy.status, busy.headers.get("retry-after")], [503, "7"]);
  server.troubles.push([402, {}, { error: { type: "card_error", message: "no" } }]);
  assert.equal((await checkout(order, ada)).status, 503);
  await untilOrder(order.order_no, "pending_payment", ada);
  assert.equal((await checkout(order, ada)).status, 200);
});

test("before an order is released, Stripe is asked; who paid has an order, and who did not has no session", async () => {
  const short = { pay_timeout_seconds: 10, pay_extension_seconds: 0 };
  const payer = await checkedOut(short);
  // Before anybody sweeps: what is due and not paid loses its session.
  server.pay(payer.session);
  const leaver = await checkedOut(short);
  await untilOrder(payer.order.order_no, "paid", payer.ada);
  await eventually("the session's end", async () => {
    await sweep();
    return { done: leaver.session.status === "expired", value: leaver.session.status };
  });
  await eventually("the release", async () => {
    await sweep();
    const value = await operate("GET", `/orders/${leaver.order.order_no}`);
    return { done: value.status === "expired", value: value.status };
  });
  await library.checkout.sessions.retrieve(payer.session.id);
  const theirs = onTheWire(server.requests.at(-1));
  const look = server.about(payer.session.id).map(onTheWire).find((request) => request.method === "GET");
  assert.deepEqual(
    { ...look, contentType: undefined, idempotency: undefined },
    { ...theirs, contentType: undefined, idempotency: undefined },
  );
  assert.ok(server.about(leaver.session.id).some(({ path }) => path.endsWith("/expire")));
});

test("an operator sees an order with its address, and nobody else does", async () => {
  const { ada, order } = await checkedOut();
  const seen = await operate("GET", `/orders/${order.order_no}`);
  assert.deepEqual([seen.user, seen.address], [ada.user, address]);
  const path = `/api/admin/orders/${order.order_no}`;
  assert.equal((await ask("GET", path, { token: ada.token })).status, 401);
  assert.equal("address" in (await call("GET", `/api/orders/${order.order_no}`, { token: ada.token })), false);
});
