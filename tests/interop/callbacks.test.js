// Payment callbacks, signed by the official libraries (E2).

import assert from "node:assert/strict";
import { test } from "node:test";

import { Webhook } from "standardwebhooks";

import { buy, publish, send, signIn, untilOrder, variable } from "./support/app.js";

/** Signs a callback with the official library, as a payment provider would, and sends it. */
async function sendCallback(id, body, { at = new Date(), secret = variable("WEBHOOK_SECRETS").split(" ")[0] } = {}) {
  const payload = JSON.stringify(body);
  const headers = {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(at / 1000)),
    "webhook-signature": new Webhook(secret).sign(id, at, payload),
  };
  return send("POST", "/api/payments/webhook", { body: payload, headers });
}

const succeeded = (order) => ({
  type: "payment.succeeded",
  timestamp: new Date().toISOString(),
  data: { order_no: order.order_no, session: "s", payment: `pay_${order.order_no}`, amount: order.amount, currency: order.currency },
});

test("a callback that the official library signed pays an order", async () => {
  const buyer = await signIn();
  const order = await buy(await publish(), buyer);
  const answer = await sendCallback(`evt_${order.order_no}`, succeeded(order));
  assert.equal(answer.status, 204);
  await untilOrder(order.order_no, "paid", buyer);
});

test("a callback that was signed too early, too late, or with another secret is refused", async () => {
  const buyer = await signIn();
  const order = await buy(await publish(), buyer);
  const invalid = [
    { at: new Date(Date.now() - 301_000) },
    { at: new Date(Date.now() + 330_000) },
    { secret: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD" },
  ];
  for (const options of invalid) {
    const { status, document } = await sendCallback(`evt_${order.order_no}`, succeeded(order), options);
    assert.deepEqual([status, document.code], [401, "signature_invalid"]);
  }
  await untilOrder(order.order_no, "pending_payment", buyer);
});
