// Payments by Stripe: the app's requests equal those of the official library, whose signatures it accepts (E1, E2, E3, E4, E5).

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import Stripe from "stripe";

import {
  address, buy, call, callAdmin, eventually, publish, send, signIn, sweep, untilOrder, variable,
} from "./support/app.js";
import { simulateSale } from "./support/load-generator.js";
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

const checkout = (order, { token }, language) =>
  send("POST", `/api/orders/${order.order_no}/checkout`, { token, body: { address, language } });

/** Places an order and opens its payment session. */
async function orderWithSession(changes, quantity, language) {
  const buyer = await signIn();
  const order = await buy(await publish(changes), buyer, quantity);
  const { status, document } = await checkout(order, buyer, language);
  assert.equal(status, 200, JSON.stringify(document));
  await untilShown(order, buyer, document.checkout_url);
  return { buyer, order, session: server.lastSessionOf(order.order_no), document };
}

/** Waits until an order shows this payment page, or none: Redis hears of it after the answer. */
const untilShown = (order, buyer, url) =>
  eventually(`${order.order_no} showing ${url}`, async () => {
    const value = await call("GET", `/api/orders/${order.order_no}`, { token: buyer.token });
    return { done: value.checkout_url === url, value };
  });

/** Waits until what an operators' list has of an order is as it should be: callbacks are applied after their answer. */
const untilListed = (path, order, isRight) =>
  eventually(`the list ${path}`, async () => {
    const value = (await callAdmin("GET", path)).items.filter(({ order_no: number }) => number === order.order_no);
    return { done: isRight(value), value };
  });

/** Signs an event with the official library's helper for tests, and sends it. */
async function sendCallback(type, object, { secret = variable("STRIPE_SECRET"), timestamp } = {}) {
  const id = `evt_${Math.random().toString(36).slice(2)}`;
  const payload = JSON.stringify({ id, object: "event", type, api_version: "2026-10-28.endive", data: { object } });
  const header = library.webhooks.generateTestHeaderString({ payload, secret, timestamp });
  return send("POST", "/api/payments/stripe", { body: payload, headers: { "stripe-signature": header } });
}

/** A paid order whose refund the app has requested from Stripe; `refunds` are the refunds at Stripe. */
async function orderBeingRefunded() {
  const { buyer, order, session } = await orderWithSession();
  server.pay(session);
  await sendCallback("checkout.session.completed", session);
  await untilOrder(order.order_no, "paid", buyer);
  await call("POST", `/api/orders/${order.order_no}/refund`, { token: buyer.token, body: {} });
  return { buyer, order, session, refunds: await refundsOf(session.payment_intent) };
}

/** Sweeps until the app has requested a refund of a payment. Resolves to the refunds at Stripe. */
const refundsOf = (payment) =>
  eventually(`a refund of ${payment}`, async () => {
    await sweep();
    const value = [...server.refunds.values()].filter((refund) => refund.payment_intent === payment);
    return { done: value.length > 0, value };
  });

/** The parts of a request that must be equal to the library's. */
const comparable = ({ method, path, headers, form }) => ({
  method,
  path,
  form,
  authorization: headers.authorization,
  contentType: headers["content-type"],
  version: headers["stripe-version"],
  idempotency: headers["idempotency-key"],
});

test("a session is opened with the same request that the official library sends", async () => {
  const skus = [
    { sku: "item", name: "Das Ding", image: "/things/1.jpg", price: 1_999, currency: "EUR", total: 10 },
  ];
  const { order, session, document } = await orderWithSession({ skus }, 2, "de-AT");
  assert.equal(document.checkout_url, session.url);
  const [appRequest] = server.requestsNaming(order.order_no);
  const orderUrl = `https://shop.example/order?order_no=${order.order_no}`;
  await library.checkout.sessions.create(
    {
      mode: "payment",
      client_reference_id: order.order_no,
      payment_method_types: ["card"],
      line_items: [
        {
          quantity: 2,
          price_data: {
            currency: "eur",
            unit_amount: 1_999,
            product_data: { name: "Das Ding", images: ["https://shop.example/things/1.jpg"] },
          },
        },
      ],
      locale: "de",
      metadata: { order_no: order.order_no },
      payment_intent_data: { metadata: { order_no: order.order_no } },
      success_url: `${orderUrl}&payment=done`,
      cancel_url: orderUrl,
      expires_at: Math.floor(Date.parse(order.pay_by) / 1_000) + 31 * 60,
    },
    { idempotencyKey: `checkout_${order.order_no}` },
  );
  assert.deepEqual(comparable(appRequest), comparable(server.requests.at(-1)));
  assert.equal(server.requestsNaming(order.order_no).length, 2, "one request each");
  assert.equal(server.sessionsOf(order.order_no).length, 1);
});

test("where Stripe's page asks for the address, that address is kept with the order, also without its event", async () => {
  const delivery = { name: "Ada", address: { line1: "1 Mill Lane", line2: null, city: "Wien", postal_code: "1010", state: null, country: "AT" } };
  const pay = (session) => {
    server.pay(session);
    Object.assign(session, { collected_information: { shipping_details: delivery } });
  };
  for (const hasEvent of [true, false]) {
    const buyer = await signIn();
    const order = await buy(await publish({ checkout: "provider", pay_timeout_seconds: hasEvent ? 300 : 3 }), buyer);
    assert.equal((await send("POST", `/api/orders/${order.order_no}/checkout`, { token: buyer.token, body: {} })).status, 200);
    const [{ form }] = server.requestsNaming(order.order_no);
    const countries = form.filter(([name]) => name.startsWith("shipping_address_collection"));
    assert.deepEqual(countries, [
      ["shipping_address_collection[allowed_countries][0]", "DE"],
      ["shipping_address_collection[allowed_countries][1]", "AT"],
    ]);
    pay(server.lastSessionOf(order.order_no));
    if (hasEvent) await sendCallback("checkout.session.completed", server.lastSessionOf(order.order_no));
    await untilOrder(order.order_no, "paid", buyer);
    const shown = await callAdmin("GET", `/orders/${order.order_no}`);
    assert.deepEqual(shown.address, { name: "Ada", street: "1 Mill Lane", city: "Wien", postal_code: "1010", country: "AT" });
  }
});

test("without a price nothing is asked of Stripe: a free order is paid, and its refund is done at once", async () => {
  const buyer = await signIn();
  const skus = [{ sku: "item", name: "A pass", price: 0, currency: "EUR", total: 10 }];
  const order = await buy(await publish({ checkout: "none", skus }), buyer);
  const { status, document } = await send("POST", `/api/orders/${order.order_no}/checkout`, { token: buyer.token, body: {} });
  assert.deepEqual([status, document.checkout_url], [200, `/order?order_no=${order.order_no}`]);
  await untilOrder(order.order_no, "paid", buyer);
  const refund = await send("POST", `/api/orders/${order.order_no}/refund`, { token: buyer.token, body: {} });
  assert.deepEqual([refund.status, refund.document.status], [202, "refunded"]);
  await sweep();
  assert.deepEqual(server.requestsNaming(order.order_no), []);
});

test("a retry in another language, or after the item was renamed, is the same request to Stripe", async () => {
  const buyer = await signIn();
  const names = { "zh-Hans": "商品", "zh-Hant": "貨品" };
  const sale = await publish({ skus: [{ sku: "item", name: "The item", names, price: 1_999, currency: "EUR", total: 10 }] });
  const order = await buy(sale, buyer);
  server.failures.push(503, 503, 503);
  assert.equal((await checkout(order, buyer, "zh-CN")).status, 503);
  const { id, state, version, ...spec } = await callAdmin("GET", `/activities/${sale.id}`);
  const skus = spec.skus.map((sku) => ({ ...sku, name: "Renamed", names: {}, image: "https://shop.example/new.jpg" }));
  await callAdmin("PUT", `/activities/${sale.id}`, { ...spec, skus });
  assert.equal((await checkout(order, buyer, "en")).status, 200);
  const requests = server.requestsNaming(order.order_no);
  assert.deepEqual([requests.length, new Set(requests.map(({ body }) => body)).size], [4, 1]);
  const field = (name) => requests[0].form.find(([known]) => known === name)?.[1];
  assert.deepEqual(
    [field("line_items[0][price_data][product_data][name]"), field("locale")],
    ["商品", "zh"],
  );
});

test("a language that is no tag is refused, and one that Stripe lacks is left to the browser", async () => {
  const buyer = await signIn();
  const order = await buy(await publish(), buyer);
  const refused = await checkout(order, buyer, "../../en");
  assert.deepEqual([refused.status, refused.document.errors[0].pointer], [400, "/language"]);
  assert.equal((await checkout(order, buyer, "tlh")).status, 200);
  assert.ok(server.requestsNaming(order.order_no)[0].form.some(([name, value]) => name === "locale" && value === "auto"));
});

test("repeated and concurrent checkouts return the same session", async () => {
  const { buyer, order, document } = await orderWithSession();
  const again = await Promise.all(Array.from({ length: 10 }, () => checkout(order, buyer)));
  for (const answer of again) assert.deepEqual(answer.document, document);
});

for (const [description, type, finish] of [
  ["expires", "checkout.session.expired", (session) => server.expire(session)],
  ["is declined by a bank", "checkout.session.async_payment_failed", (session) => server.decline(session)],
]) {
  test(`a session that ${description} early is no longer shown, and the next checkout opens another one`, async () => {
    const { buyer, order, session, document } = await orderWithSession();
    finish(session);
    assert.equal((await sendCallback(type, session)).status, 204);
    const shown = await untilShown(order, buyer, undefined);
    assert.equal(shown.status, "pending_payment");
    const { items: [listed] } = await call("GET", "/api/orders", { token: buyer.token });
    assert.deepEqual([listed.order_no, listed.checkout_url], [order.order_no, undefined]);

    const again = await Promise.all(Array.from({ length: 5 }, () => checkout(order, buyer)));
    const [first, second, ...more] = server.sessionsOf(order.order_no);
    assert.deepEqual([first.id, more.length], [session.id, 0]);
    for (const answer of again) {
      assert.deepEqual([answer.status, answer.document.checkout_url], [200, second.url]);
      assert.equal(answer.document.pay_by, document.pay_by, "extended once");
    }
    const opened = server.requestsNaming(order.order_no).filter(({ path }) => path === "/v1/checkout/sessions");
    const keys = new Set(opened.map(({ headers }) => headers["idempotency-key"]));
    assert.deepEqual([...keys], [`checkout_${order.order_no}`, `checkout_${order.order_no}_2`]);

    await untilShown(order, buyer, second.url);
    // Stripe reports the end of the first session again: the second one stays open, and is paid.
    assert.equal((await sendCallback(type, session)).status, 204);
    const current = await call("GET", `/api/orders/${order.order_no}`, { token: buyer.token });
    assert.equal(current.checkout_url, second.url);
    server.pay(second);
    assert.equal((await sendCallback("checkout.session.completed", second)).status, 204);
    await untilOrder(order.order_no, "paid", buyer);
  });
}

test("a callback with the library's test signature pays an order once", async () => {
  const { buyer, order, session } = await orderWithSession();
  server.pay(session);
  const { data } = { data: { ...session } };
  for (const options of [{ secret: "whsec_other" }, { timestamp: Math.floor(Date.now() / 1_000) - 301 }]) {
    const { status, document } = await sendCallback("checkout.session.completed", data, options);
    assert.deepEqual([status, document.code], [401, "signature_invalid"]);
  }
  for (let times = 0; times < 3; times += 1) {
    assert.equal((await sendCallback("checkout.session.completed", data)).status, 204);
  }
  await untilOrder(order.order_no, "paid", buyer);
  const late = { ...data, payment_status: "unpaid" };
  assert.equal((await sendCallback("checkout.session.async_payment_failed", late)).status, 204);
  assert.equal((await sendCallback("customer.created", { id: "cus_1" })).status, 204);
  await untilOrder(order.order_no, "paid", buyer);
});

test("a payment of a wrong amount is held, and an operator refunds it", async () => {
  const { buyer, order, session } = await orderWithSession();
  const paid = { ...session, payment_status: "paid", payment_intent: `pi_${session.id}`, amount_total: 1 };
  assert.equal((await sendCallback("checkout.session.completed", paid)).status, 204);
  await untilOrder(order.order_no, "pending_payment", buyer);
  const held = await untilListed("/callbacks", order, (listed) => listed.length > 0);
  assert.deepEqual([held.length, held[0].outcome, held[0].amount], [1, "wrong_amount", 1]);
  await callAdmin("POST", `/callbacks/${held[0].id}/refund`, {});
  const [refund] = await refundsOf(`pi_${session.id}`);
  assert.equal(refund.amount, 1);
  assert.equal((await sendCallback("refund.updated", { ...refund, status: "succeeded" })).status, 204);
  await untilListed("/refunds", order, (listed) => listed.length === 0);
});

test("a refund is requested as the official library does, and is complete when Stripe reports it", async () => {
  const { buyer, order, session, refunds } = await orderBeingRefunded();
  const [appRequest] = server.requestsNaming(session.payment_intent);
  await library.refunds.create(
    { payment_intent: session.payment_intent, amount: order.amount, metadata: { order_no: order.order_no } },
    { idempotencyKey: `refund_${order.order_no}_${session.payment_intent}_0` },
  );
  assert.deepEqual(comparable(appRequest), comparable(server.requests.at(-1)));
  const [refund] = refunds;
  await untilOrder(order.order_no, "refunding", buyer);
  assert.equal((await sendCallback("refund.updated", { ...refund, status: "pending" })).status, 204);
  await untilOrder(order.order_no, "refunding", buyer);
  const charge = { id: "ch_1", metadata: { order_no: order.order_no }, payment_intent: session.payment_intent };
  const whole = { ...charge, amount: order.amount, amount_refunded: order.amount, refunded: true, currency: "eur" };
  assert.equal((await sendCallback("charge.refunded", whole)).status, 204);
  assert.equal((await sendCallback("refund.updated", { ...refund, status: "succeeded" })).status, 204);
  await untilOrder(order.order_no, "refunded", buyer);
});

for (const isReported of [true, false]) {
  test(`the rest is refunded after a part was in the dashboard, ${isReported ? "" : "not "}reported`, async () => {
    const { buyer, order, session } = await orderWithSession();
    server.pay(session);
    await sendCallback("checkout.session.completed", session);
    await untilOrder(order.order_no, "paid", buyer);
    const { payment_intent: payment, metadata } = session;
    server.byHand.set(payment, 500);
    if (isReported) {
      const charge = { id: "ch_1", metadata, payment_intent: payment, amount: order.amount, amount_refunded: 500, currency: "eur" };
      assert.equal((await sendCallback("charge.refunded", charge)).status, 204);
      await eventually("the part", async () => {
        const { callbacks: value } = await callAdmin("GET", `/orders/${order.order_no}`);
        return { done: value.some(({ outcome }) => outcome === "part_refunded"), value };
      });
    }
    await call("POST", `/api/orders/${order.order_no}/refund`, { token: buyer.token, body: {} });
    const refunds = await refundsOf(payment);
    assert.deepEqual(refunds.map(({ amount }) => amount), [order.amount - 500]);
    assert.equal((await sendCallback("refund.updated", { ...refunds[0], status: "succeeded" })).status, 204);
    await untilOrder(order.order_no, "refunded", buyer);
    assert.equal((await refundsOf(payment)).length, 1);
  });
}

test("an event about an order of another app with the same account is accepted and not held", async () => {
  const object = { id: "x_1", metadata: { order_no: "sale.01JZ8Q4M7T3V9X2C5B6N0K1R8W" }, payment_intent: "pi_1", payment_status: "paid", status: "failed" };
  for (const type of ["checkout.session.completed", "checkout.session.expired", "charge.refunded", "refund.failed"]) {
    assert.equal((await sendCallback(type, object)).status, 204, type);
  }
  await untilListed("/callbacks", object.metadata, (listed) => listed.length === 0);
});

test("Stripe counts ISK in hundredths: it charges the price of the page, and refunds that", async () => {
  const skus = [{ sku: "item", name: "Lopapeysa", image: "", price: 24_900, currency: "ISK", total: 10 }];
  const { buyer, order, session } = await orderWithSession({ skus }, 2);
  assert.deepEqual([session.currency, session.amount_total], ["isk", 4_980_000]);
  server.pay(session);
  assert.equal((await sendCallback("checkout.session.completed", session)).status, 204);
  await untilOrder(order.order_no, "paid", buyer);
  await call("POST", `/api/orders/${order.order_no}/refund`, { token: buyer.token, body: {} });
  const [refund] = await refundsOf(session.payment_intent);
  assert.deepEqual([refund.currency, refund.amount], ["isk", 4_980_000]);
  assert.equal((await sendCallback("refund.updated", { ...refund, status: "succeeded" })).status, 204);
  await untilOrder(order.order_no, "refunded", buyer);
});

test("a price that Stripe cannot charge is refused before the sale", async () => {
  const { id } = await publish();
  const { id: _, state, version, ...spec } = await callAdmin("GET", `/activities/${id}`);
  for (const [currency, price, step] of [["KWD", 1_999, 10], ["MGA", 19_950, 100]]) {
    const skus = [{ ...spec.skus[0], currency, price }];
    const { status, document } = await send("PUT", `/api/admin/activities/${id}`, {
      token: variable("ADMIN_TOKEN"), body: { ...spec, skus },
    });
    assert.deepEqual([status, document.errors[0].pointer], [400, "/skus/0/price"]);
    assert.match(document.errors[0].detail, new RegExp(`multiple of ${step} minor units, .* ${currency}`));
  }
});

test("a failed refund is requested again as a new refund", async () => {
  const { order, refunds } = await orderBeingRefunded();
  assert.equal(refunds.length, 1);
  const failed = { ...refunds[0], status: "failed", failure_reason: "lost_or_stolen_card" };
  // Stripe reports a failed refund twice, by two event types.
  for (const type of ["refund.failed", "refund.updated"]) assert.equal((await sendCallback(type, failed)).status, 204);
  const [stuck] = await untilListed("/refunds", order, ([refund]) => refund?.state === "requested");
  assert.deepEqual([stuck.state, stuck.last_error], ["requested", "the provider said no"]);
});

test("a failed request to Stripe is retried with the same idempotency key", async () => {
  const buyer = await signIn();
  const order = await buy(await publish(), buyer);
  server.failures.push(500, "hang up");
  assert.equal((await checkout(order, buyer)).status, 200);
  const requests = server.requestsNaming(order.order_no);
  assert.equal(requests.length, 3);
  assert.equal(new Set(requests.map(({ headers }) => headers["idempotency-key"])).size, 1);
  assert.equal(new Set(requests.map(({ body }) => body)).size, 1);
});

test("an error that Stripe keeps for an idempotency key stops neither a checkout nor a refund", async () => {
  const buyer = await signIn();
  const order = await buy(await publish(), buyer);
  server.failures.push({ kept: 500 });
  assert.equal((await checkout(order, buyer)).status, 200);
  const session = server.lastSessionOf(order.order_no);
  const keys = server.requestsNaming(order.order_no).map(({ headers }) => headers["idempotency-key"]);
  assert.deepEqual(keys.slice(0, -1), Array(2).fill(`checkout_${order.order_no}`));
  assert.match(keys.at(-1), new RegExp(`^checkout_${order.order_no}_at_\\d+$`));
  server.pay(session);
  await sendCallback("checkout.session.completed", session);
  await untilOrder(order.order_no, "paid", buyer);
  server.failures.push({ kept: 500 });
  await call("POST", `/api/orders/${order.order_no}/refund`, { token: buyer.token, body: {} });
  assert.equal((await refundsOf(session.payment_intent)).length, 1);
});

test("a checkout whose request has changed since an attempt without an answer opens a session", async () => {
  const buyer = await signIn();
  const order = await buy(await publish(), buyer);
  server.failures.push([400, {}, { error: { type: "idempotency_error", message: "other parameters" } }]);
  assert.equal((await checkout(order, buyer)).status, 200);
});

test("while Stripe is unavailable the order stays reserved, and a later checkout succeeds", async () => {
  const buyer = await signIn();
  const order = await buy(await publish(), buyer);
  server.failures.push(503, 503, 503);
  const unavailable = await checkout(order, buyer);
  assert.deepEqual([unavailable.status, unavailable.document.code], [503, "not_ready"]);
  server.failures.push([429, { "retry-after": "7" }, undefined]);
  const busy = await checkout(order, buyer);
  assert.deepEqual([busy.status, busy.headers.get("retry-after")], [503, "7"]);
  server.failures.push([402, {}, { error: { type: "card_error", message: "no" } }]);
  const refused = await checkout(order, buyer);
  assert.deepEqual([refused.status, refused.document.code], [409, "payment_refused"]);
  await untilOrder(order.order_no, "pending_payment", buyer);
  assert.equal((await checkout(order, buyer)).status, 200);
});

test("before an order is released, Stripe is queried: a paid order stays, an unpaid session is expired", async () => {
  const short = { pay_timeout_seconds: 10, pay_extension_seconds: 0 };
  const paid = await orderWithSession(short);
  // Paid before the first sweep, which expires the session of a due order that is not paid.
  server.pay(paid.session);
  const unpaid = await orderWithSession(short);
  // Whatever fails once does not keep the session open.
  server.failures.push({ kept: 500, path: "/expire" });
  await untilOrder(paid.order.order_no, "paid", paid.buyer);
  await eventually("the session's end", async () => {
    await sweep();
    return { done: unpaid.session.status === "expired", value: unpaid.session.status };
  });
  await eventually("the release", async () => {
    await sweep();
    const value = await callAdmin("GET", `/orders/${unpaid.order.order_no}`);
    return { done: value.status === "expired", value: value.status };
  });
  await library.checkout.sessions.retrieve(paid.session.id);
  const libraryRequest = comparable(server.requests.at(-1));
  const query = server.requestsNaming(paid.session.id).map(comparable).find((request) => request.method === "GET");
  assert.deepEqual(
    { ...query, contentType: undefined, idempotency: undefined },
    { ...libraryRequest, contentType: undefined, idempotency: undefined },
  );
  assert.ok(server.requestsNaming(unpaid.session.id).some(({ path }) => path.endsWith("/expire")));
});

test("only operators see the address of an order", async () => {
  const { buyer, order } = await orderWithSession();
  const shown = await callAdmin("GET", `/orders/${order.order_no}`);
  assert.deepEqual([shown.user, shown.address], [buyer.user, address]);
  const path = `/api/admin/orders/${order.order_no}`;
  assert.equal((await send("GET", path, { token: buyer.token })).status, 401);
  assert.equal("address" in (await call("GET", `/api/orders/${order.order_no}`, { token: buyer.token })), false);
});

test("a simulated sale is paid at Stripe's payment pages, as the stand-in has them", async () => {
  const { pages } = server;
  server.pages = `http://127.0.0.1:${variable("PORT_STRIPE")}`;
  server.onPaid = (session) => void sendCallback("checkout.session.completed", session);
  try {
    assert.match(await simulateSale(), /paid \(meant to pay\)/);
  } finally {
    Object.assign(server, { pages, onPaid: () => {} });
  }
});
