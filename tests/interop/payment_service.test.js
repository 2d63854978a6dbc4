// A sale through the payment service of examples/payments (E1, E2, E4).

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, test } from "node:test";

import { simulateSale } from "./support/load-generator.js";
import { address, buy, call, eventually, publish, signIn, untilOrder, variable } from "./support/app.js";

const port = variable("PORT_PAYMENTS");
const PUBLIC_URL = `http://127.0.0.1:${port}`;
let service;

before(async () => {
  const env = {
    PORT: port,
    APP_URL: variable("URL").replace(/\/$/, ""),
    WEBHOOK_SECRET: variable("WEBHOOK_SECRETS").split(" ")[0],
    PUBLIC_URL,
  };
  service = spawn(process.env.PYTHON, ["../../examples/payments/service.py"], { env, stdio: "ignore" });
  await eventually("the service", async () => ({ done: await fetch(`http://127.0.0.1:${port}`).then(() => true, () => false) }));
});
after(() => service.kill());

test("an order is paid and refunded through the example of a payment service", async () => {
  const buyer = await signIn();
  const { order_no: order } = await buy(await publish(), buyer, 2);
  const post = (action, body) => call("POST", `/api/orders/${order}/${action}`, { token: buyer.token, body });
  const { checkout_url: page } = await post("checkout", { address });
  const pay = () => fetch(page, { method: "POST", redirect: "manual" });
  const paid = await pay();
  const location = `https://shop.example/order?order_no=${order}&payment=done`;
  assert.deepEqual([paid.status, paid.headers.get("location")], [303, location]);
  await untilOrder(order, "paid", buyer);
  assert.equal((await pay()).status, 409);
  await post("refund", {});
  await untilOrder(order, "refunded", buyer);
});

test("a simulated sale is paid at the example of a payment service", async () => {
  const report = await simulateSale();
  assert.match(report, /Every invariant held/);
  assert.match(report, /paid \(meant to pay\)/);
});
