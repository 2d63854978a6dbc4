// What these tests need of the app besides the client that all JavaScript tests share.

import { createServer } from "node:net";

import * as app from "../../support/app.mjs";

export { call, callAdmin, createActivity, eventually, send, signIn, sweep, untilPhase, variable } from "../../support/app.mjs";

/** Creates and publishes an activity with one SKU, `item`, at 19.99 EUR, without limits. Resolves to its id. */
export async function publish(changes = {}) {
  const id = await app.publishActivity({ per_user: 5, limits: { user: null, ip: null, all: null }, ...changes });
  await app.untilPhase(id, { phases: ["open"] });
  return { id };
}

/** Reserves units of `item` and waits until the order can be paid. Resolves to the order. */
export async function buy(sale, buyer, quantity = 1) {
  const order = await app.reserve(sale.id, buyer, quantity);
  return untilOrder(order.order_no, "pending_payment", buyer);
}

/** Sweeps until an order has a status, as reported to its owner. */
export const untilOrder = (order, status, buyer) => app.untilOrder(order, status, buyer, app.sweep);

/** A valid delivery address. */
export const address = { name: "Ada", street: "1 Mill Lane", city: "London", postal_code: "N1 9GU", country: "GB" };

/** A port that is free now. */
export const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
