// Events out, verified by the official library as a shop would (E7).

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Webhook } from "standardwebhooks";

import { buy, call, eventually, operate, publish, signIn, sweep, untilOrder, variable } from "./support/app.js";
import { Shop } from "./support/shop.js";

const shop = new Shop();

before(async () => {
  await shop.start();
  await operate("POST", "/events/enable", {});
});
after(() => shop.stop());

/** Sweeps until so many attempts came about an order. */
const untilTold = (order, times) =>
  eventually(`${times} events about ${order}`, async () => {
    await sweep();
    const told = shop.about(order);
    return { done: told.length >= times, value: told };
  });

test("what became of an order is told in order, with signatures that the official library accepts", async () => {
  const ada = await signIn();
  const order = await buy(await publish(), ada, 2);
  await call("POST", `/api/orders/${order.order_no}/cancel`, { token: ada.token });
  const told = await untilTold(order.order_no, 2);
  const webhook = new Webhook(variable("EVENTS_SECRET"));
  const documents = told.map(({ headers, body }) => webhook.verify(body, headers));
  assert.deepEqual(documents.map(({ type }) => type), ["order.pending_payment", "order.cancelled"]);
  for (const { path, headers } of told) {
    assert.equal(path, "/events");
    assert.match(headers["content-type"], /^application\/json/);
  }
  const [pending, cancelled] = documents.map(({ data }) => data);
  const { ahead, estimated_wait_ms: wait, ...own } = await call("GET", `/api/orders/${order.order_no}`, { token: ada.token });
  assert.deepEqual(cancelled, { ...own, ahead: 0, estimated_wait_ms: 0 });
  assert.deepEqual([pending.status, pending.pay_by, pending.quantity], ["pending_payment", order.pay_by, 2]);
  assert.throws(() => new Webhook("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").verify(told[0].body, told[0].headers));
});

test("an attempt that failed is made again, under the same id and with a fresh time; redirects are not followed", async () => {
  const ada = await signIn();
  const before = shop.attempts.length;
  const sale = await publish();
  shop.answerOnce(sale.id, 302, { location: `http://127.0.0.1:${variable("PORT_EVENTS")}/elsewhere` });
  const order = await buy(sale, ada);
  const [first, second] = await untilTold(order.order_no, 2);
  assert.equal(first.headers["webhook-id"], second.headers["webhook-id"]);
  assert.equal(first.body, second.body);
  assert.ok(Number(second.headers["webhook-timestamp"]) >= Number(first.headers["webhook-timestamp"]) + 4);
  new Webhook(variable("EVENTS_SECRET")).verify(second.body, second.headers);
  assert.ok(shop.attempts.slice(before).every(({ path }) => path === "/events"));
});

test("an operator sees what was delivered, and has it sent again", async () => {
  const ada = await signIn();
  const order = await buy(await publish(), ada);
  const [first] = await untilTold(order.order_no, 1);
  const delivered = await eventually("the note of it", async () => {
    const { events } = await operate("GET", `/orders/${order.order_no}`);
    return { done: events[0]?.state === "delivered", value: events };
  });
  assert.equal(delivered[0].id, first.headers["webhook-id"]);
  assert.deepEqual(await operate("POST", "/events/replay", { order_no: order.order_no }), { replayed: 1 });
  const again = await untilTold(order.order_no, 2);
  assert.equal(again[1].headers["webhook-id"], first.headers["webhook-id"]);
});

test("an endpoint that is gone is left alone until an operator enables it", async () => {
  const ada = await signIn();
  const sale = await publish();
  shop.answerOnce(sale.id, 410);
  const order = await buy(sale, ada);
  await untilTold(order.order_no, 1);
  const gone = await eventually("the endpoint being disabled", async () => {
    const { endpoint } = await operate("GET", "/events");
    return { done: endpoint.disabled_at, value: endpoint };
  });
  assert.ok(gone.disabled_at);
  await call("POST", `/api/orders/${order.order_no}/cancel`, { token: ada.token });
  await sweep();
  assert.equal(shop.about(order.order_no).length, 1);
  await operate("POST", "/events/enable", {});
  await operate("POST", "/events/replay", { order_no: order.order_no });
  await untilTold(order.order_no, 3);
  await untilOrder(order.order_no, "cancelled", ada);
});
