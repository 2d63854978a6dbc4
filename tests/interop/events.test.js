// Outgoing events, verified by the official library as a shop would (E7).

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile, rm, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Webhook } from "standardwebhooks";

import { address, buy, call, callAdmin, eventually, freePort, publish, signIn, sweep, untilOrder, variable } from "./support/app.js";
import { Shop } from "./support/shop.js";

const shop = new Shop();

before(async () => {
  await shop.start();
  await callAdmin("POST", "/events/enable", {});
});
after(() => shop.stop());

/** Sweeps until the shop has received at least `count` deliveries for an order. */
const untilAttempts = (order, count) =>
  eventually(`${count} events about ${order}`, async () => {
    await sweep();
    const attempts = shop.eventsOf(order);
    return { done: attempts.length >= count, value: attempts };
  });

test("the events of an order arrive in order, with signatures that the official library accepts", async () => {
  const buyer = await signIn();
  const order = await buy(await publish(), buyer, 2);
  await call("POST", `/api/orders/${order.order_no}/cancel`, { token: buyer.token });
  const attempts = await untilAttempts(order.order_no, 2);
  const webhook = new Webhook(variable("EVENTS_SECRET"));
  const documents = attempts.map(({ headers, body }) => webhook.verify(body, headers));
  assert.deepEqual(documents.map(({ type }) => type), ["order.pending_payment", "order.cancelled"]);
  for (const { path, headers } of attempts) {
    assert.equal(path, "/events");
    assert.match(headers["content-type"], /^application\/json/);
  }
  const [pending, cancelled] = documents.map(({ data }) => data);
  const shown = await untilOrder(order.order_no, "cancelled", buyer);
  const { ahead, estimated_wait_ms: wait, ...own } = shown;
  assert.deepEqual(cancelled, { ...own, ahead: 0, estimated_wait_ms: 0, user: buyer.user, name: "The item" });
  assert.deepEqual([pending.status, pending.pay_by, pending.quantity], ["pending_payment", order.pay_by, 2]);
  const otherWebhook = new Webhook("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
  assert.throws(() => otherWebhook.verify(attempts[0].body, attempts[0].headers));
});

test("a failed delivery is retried with the same id and a new timestamp; redirects are not followed", async () => {
  const buyer = await signIn();
  const before = shop.attempts.length;
  const sale = await publish();
  shop.respondOnce(`${sale.id}.`, 302, { location: `http://127.0.0.1:${variable("PORT_EVENTS")}/elsewhere` });
  const order = await buy(sale, buyer);
  const [first, second] = await untilAttempts(order.order_no, 2);
  assert.equal(first.headers["webhook-id"], second.headers["webhook-id"]);
  assert.equal(first.body, second.body);
  assert.ok(Number(second.headers["webhook-timestamp"]) >= Number(first.headers["webhook-timestamp"]) + 4);
  new Webhook(variable("EVENTS_SECRET")).verify(second.body, second.headers);
  assert.ok(shop.attempts.slice(before).every(({ path }) => path === "/events"));
});

test("an operator tests the endpoint, and sees the answer in the list of deliveries", async () => {
  const { id, state } = await callAdmin("POST", "/events/test");
  assert.equal(state, "waiting");
  const listed = await eventually("the test being delivered", async () => {
    await sweep();
    const { items } = await callAdmin("GET", "/events?state=delivered&type=test&limit=1");
    return { done: items[0]?.id === id, value: items };
  });
  assert.deepEqual([listed[0].last_status, listed[0].attempts, listed[0].last_error], [204, 1, ""]);
  const { headers, body } = shop.attempts.find(({ headers: { "webhook-id": sent } }) => sent === id);
  assert.deepEqual(new Webhook(variable("EVENTS_SECRET")).verify(body, headers).data, {});
  assert.ok(listed[0].last_try_at);
});

test("an operator sees the delivered events and replays them", async () => {
  const buyer = await signIn();
  const order = await buy(await publish(), buyer);
  const [first] = await untilAttempts(order.order_no, 1);
  const delivered = await eventually("the event being marked as delivered", async () => {
    const { events } = await callAdmin("GET", `/orders/${order.order_no}`);
    return { done: events[0]?.state === "delivered", value: events };
  });
  assert.equal(delivered[0].id, first.headers["webhook-id"]);
  assert.deepEqual(await callAdmin("POST", "/events/replay", { order_no: order.order_no }), { replayed: 1 });
  const again = await untilAttempts(order.order_no, 2);
  assert.equal(again[1].headers["webhook-id"], first.headers["webhook-id"]);
});

test("an endpoint that answered 410 is shown, and gets no events for an hour, or until an operator enables it", async () => {
  const buyer = await signIn();
  const sale = await publish();
  // An endpoint that accepts another event at the same time is not gone.
  await eventually("the events of the sale", async () => {
    await sweep();
    const types = shop.attempts.map(({ body }) => JSON.parse(body)).filter(({ data }) => data.activity === sale.id).map(({ type }) => type);
    return { done: types.includes("activity.opened"), value: types };
  });
  shop.respondOnce(`${sale.id}.`, 410);
  const order = await buy(sale, buyer);
  await untilAttempts(order.order_no, 1);
  const gone = await eventually("the endpoint being left alone", async () => {
    const { endpoint } = await callAdmin("GET", "/events");
    return { done: endpoint.gone, value: endpoint };
  });
  assert.deepEqual([gone.gone, gone.disabled_at], [1, null]);
  assert.ok(Date.parse(gone.rest_until) > Date.now() + 3_500_000);
  const monitor = async (path) => {
    const answer = await fetch(new URL(path, variable("URL")), { headers: { authorization: `Bearer ${variable("ADMIN_TOKEN")}` } });
    return [answer.status, await answer.text()];
  };
  const [status, readiness] = await monitor("readyz");
  assert.deepEqual([status, JSON.parse(readiness).checks.events], [200, "answered 410: it gets the next event an hour later"]);
  await eventually("the metric", async () => {
    const [, metrics] = await monitor("metrics");
    return { done: metrics.includes("\nstampede_events_gone 1\n"), value: metrics };
  });
  await call("POST", `/api/orders/${order.order_no}/cancel`, { token: buyer.token });
  await sweep();
  assert.equal(shop.eventsOf(order.order_no).length, 1);
  await callAdmin("POST", "/events/enable", {});
  await callAdmin("POST", "/events/replay", { order_no: order.order_no });
  await untilAttempts(order.order_no, 3);
  assert.equal(JSON.parse((await monitor("readyz"))[1]).checks.events, "ok");
  await untilOrder(order.order_no, "cancelled", buyer);
});

/** The headers that Standard Webhooks verifies. */
const signed = (headers) => Object.fromEntries(["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => [name, headers[name]]));

const document = await readFile(new URL("../../docs/events.md", import.meta.url), "utf8");

for (const [language, suffix, command] of [["js", "mjs", process.execPath], ["python", "py", process.env.PYTHON]]) {
  test(`the receiver of docs/events.md in ${language} verifies what the app sends, and ships once`, async (context) => {
    const buyer = await signIn();
    const skus = [{ sku: "item", name: "The item", price: 0, currency: "EUR", total: 10 }];
    const order = await buy(await publish({ skus }), buyer);
    await call("POST", `/api/orders/${order.order_no}/checkout`, { token: buyer.token, body: { address } });
    const [, { headers, body }] = await untilAttempts(order.order_no, 2);

    const source = document.match(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, "s"))[1];
    const file = new URL(`receiver.${suffix}`, import.meta.url);
    await writeFile(file, source);
    const port = await freePort();
    const receiver = spawn(command, [fileURLToPath(file)], { env: { PORT: port, EVENTS_SECRET: variable("EVENTS_SECRET") } });
    context.after(async () => {
      receiver.kill();
      await rm(file);
    });
    let [printed, errors] = ["", ""];
    receiver.stdout.on("data", (chunk) => { printed += chunk; });
    receiver.stderr.on("data", (chunk) => { errors += chunk; });
    const send = (text) => fetch(`http://127.0.0.1:${port}`, { method: "POST", headers: signed(headers), body: text });
    await eventually("the receiver", async () => {
      const status = await send("{}").then((answer) => answer.status, () => errors);
      return { done: status === 401, value: status };
    });
    for (let time = 0; time < 2; time += 1) assert.equal((await send(body)).status, 204);
    assert.equal((await send(body.replace(buyer.user, "eve"))).status, 401);
    await eventually("a shipment", async () => ({ done: printed.includes("ship"), value: printed }));
    assert.equal(printed.trim(), `ship 1 × The item to ${buyer.user}`);
  });
}
