// A sale of a Medusa shop's stock through examples/shop, whose connector is killed all the time (E7).

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import {
  address, buy, call, callAdmin, createActivity, eventually, signIn, sweep, untilOrder, untilPhase, variable,
} from "./support/app.js";
import { Connector, Medusa } from "./support/medusa.js";

const [STOCK, TOTAL, KILLS] = [50, 20, 5];
const shop = new Medusa();
let connector;

before(async () => {
  await shop.start();
  await shop.stock(STOCK);
  connector = new Connector(shop);
  await connector.install();
});
after(async () => {
  await connector?.remove();
  shop.stop();
});

const random = (most) => 1 + Math.floor(Math.random() * most);

/** Runs a command, which is killed twice, until it succeeds; and once more. */
async function repeat(...args) {
  for (let time = 0; time < 2; time += 1) await connector.run(args, random(1_500));
  await eventually(args.join(" "), async () => ({ done: (await connector.run(args)) === 0, value: connector.output }), 120);
  assert.equal(await connector.run(args), 0, connector.output);
}

/** Pays in the sandbox. */
async function pay({ order_no, buyer }) {
  const { checkout_url: page } = await call("POST", `/api/orders/${order_no}/checkout`, { token: buyer.token, body: { address } });
  await call("POST", new URL(page, variable("URL")).pathname, { body: { outcome: "paid" } });
  await untilOrder(order_no, "paid", buyer);
}

async function refund({ order_no, buyer }) {
  await call("POST", `/api/orders/${order_no}/refund`, { token: buyer.token, body: {} });
  await untilOrder(order_no, "refunded", buyer);
}

/** Sends the events of these orders again and again, and kills the connector, until the shop has them, and no others. */
const untilBooked = (orders) => {
  let rounds = 0;
  return eventually("the shop having each order once", async () => {
    for (const { order_no } of orders) await callAdmin("POST", "/events/replay", { order_no });
    await sweep();
    if ((rounds += 1) <= KILLS) {
      await sleep(random(2_000));
      await connector.restart();
    }
    assert.ok((await shop.available()) <= STOCK - TOTAL, "the shop sells what the sale may still sell");
    const booked = (await shop.orders()).map(({ custom_display_id: number, status }) => `${number} ${status}`).sort();
    const wanted = orders.map(({ order_no: number, status }) => `${number} ${status}`).sort();
    return { done: rounds > KILLS && booked.join() === wanted.join(), value: { booked, wanted, output: connector.output } };
  }, 120);
};

test("stock and orders of the shop agree with the sale after kills and repeated events", async () => {
  const skus = [{ sku: "item", name: "The item", price: 1_999, currency: "EUR", total: TOTAL }];
  const times = { ends_at: new Date(Date.now() + 3_600_000).toISOString(), pay_timeout_seconds: 3_600 };
  const sale = { id: await createActivity({ skus, ...times, per_user: 5, limits: { user: null, ip: null, all: null } }) };
  await repeat("take", sale.id);
  assert.equal(await shop.available(), STOCK - TOTAL);
  await callAdmin("POST", `/activities/${sale.id}/publish`, {});
  await untilPhase(sale.id, { phases: ["open"] });

  const buys = [1, 2, 3, 2, 1, 3, 2, 2].map(async (quantity, index) => {
    const { customer } = await shop.call("POST", "/customers", { email: `buyer-${index}@shop.example` });
    const buyer = await signIn(customer.id);
    return { ...(await buy(sale, buyer, quantity)), buyer, status: "pending" };
  });
  const [last, cancelled, unseen, ...orders] = await Promise.all(buys);
  // The connector does not run yet, so the shop never sees this order.
  await pay(unseen);
  await refund(unseen);
  for (const order of orders) {
    await pay(order);
    await connector.restart();
  }
  await untilBooked(orders);
  for (const order of orders.slice(0, 2)) {
    await refund(order);
    order.status = "canceled";
  }
  await untilBooked(orders);

  await callAdmin("POST", `/activities/${sale.id}/close`, {});
  assert.notEqual(await connector.run(["settle", sale.id]), 0, "it is settled before the last buyer paid");
  await connector.stop();
  await call("POST", `/api/orders/${cancelled.order_no}/cancel`, { token: cancelled.buyer.token });
  await pay(last);
  orders.push(last);
  await repeat("settle", sale.id);
  await check(orders);
  await connector.restart();
  for (const { order_no } of [unseen, ...orders]) await callAdmin("POST", "/events/replay", { order_no });
  await eventually("the connector accepting all events again", async () => {
    await sweep();
    const { items } = await callAdmin("GET", "/events?state=waiting");
    const waiting = items.filter(({ type }) => type.startsWith("order."));
    return { done: waiting.length === 0, value: { waiting, output: connector.output } };
  }, 120);
  await check(orders);
});

/** Checks that the shop has these orders, each once, and that its stock and its orders have all units. */
async function check(orders) {
  const shown = await shop.orders();
  const open = shown.filter(({ status }) => status === "pending").flatMap(({ items }) => items);
  assert.equal(open.reduce((sum, { quantity }) => sum + quantity, await shop.available()), STOCK);
  assert.equal(shown.length, orders.length);
  for (const { order_no, quantity, amount, buyer, status } of orders) {
    const { items: [item, ...more], shipping_address: to, ...order } = shown.find(({ custom_display_id: own }) => own === order_no);
    assert.deepEqual([order.status, order.customer_id, order.total], [status, buyer.user, amount / 100]);
    assert.deepEqual([item.variant_sku, item.quantity, more], ["item", quantity, []]);
    assert.deepEqual([to.first_name, to.address_1, to.postal_code, to.country_code], ["Ada", "1 Mill Lane", "N1 9GU", "gb"]);
  }
}
