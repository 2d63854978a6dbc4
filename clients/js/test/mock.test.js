// The client without a server (G14).

import assert from "node:assert/strict";
import { test } from "node:test";
import { createMockClient } from "@stampede/client/mock";

/** Buys, and pays once: what the order looked like, without repetition. */
async function purchase(script) {
  const client = createMockClient(script);
  const [{ id }] = await client.activities();
  const { skus: [{ sku, price }] } = await client.activity(id);
  const outcome = await client.buy(id, { sku, quantity: 2, amount: 2 * price });
  if (outcome.kind === "refused") return outcome.error.code;
  assert.equal(outcome.order.amount, 2 * price);
  const seen = [];
  for await (const { order_no: orderNo, status, ahead, declined_at: declined } of client.watchOrder(outcome.order.order_no)) {
    seen.push(status === "queued" ? ahead : status === "waiting" ? `waits behind ${ahead}` : declined ? "declined" : status);
    if (declined) break;
    if (status === "pending_payment") await client.checkout(orderNo);
  }
  return seen;
}

test("a buyer of the mock leaves the line, and a unit that was offered stays", async () => {
  const buy = async (client) => (await client.buy("demo", { sku: "camera" })).order.order_no;
  const client = createMockClient("waitlist");
  const { status, reason } = await client.leave(await buy(client));
  assert.deepEqual([status, reason], ["cancelled", "left_line"]);
  const other = createMockClient("waitlist");
  const offered = await buy(other);
  for (let looks = 0; looks < 3; looks += 1) await other.order(offered);
  assert.equal((await other.leave(offered)).status, "pending_payment");
});

test("a mock client buys, waits in the queue, is refused and declined by its script", async () => {
  const outcomes = await Promise.all(["paid", "queue", "sold_out", "declined", "waitlist"].map(purchase));
  assert.deepEqual(outcomes, [
    ["pending_payment", "paid"], [2, 1, 0, "pending_payment", "paid"], "sold_out", ["pending_payment", "declined"],
    ["waits behind 1", "waits behind 0", "pending_payment", "paid"],
  ]);
});
