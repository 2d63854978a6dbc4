// Stories of a buyer: from the list of sales to the paid, cancelled, expired or refunded order.

import assert from "node:assert/strict";
import { test } from "node:test";
import { call, callAdmin, eventually, publish, signIn, sweep, unique, untilOrder } from "../support/app.js";
import {
  byTestId, goToPayment, recordText, signInOnPage, untilBuyButton, untilText, withPage,
} from "../support/browser.js";
import { retryIfLate } from "../support/retry-if-late.js";

const orderNoOn = (page) => new URL(page.url()).searchParams.get("order_no");

/** Signs in and buys on a sale page that is already open. Ends on the order's page. */
async function buyOnPage(page, user) {
  await signInOnPage(page, user);
  await untilBuyButton(page, "enabled");
  await byTestId(page, "buy").click();
  await page.waitForURL(/\/order\?/);
}

test("a buyer signs in, waits for the start, buys, pays, and sees the order paid", () => retryIfLate(async () => {
  const sale = await publish({ startsIn: 15_000, total: 3 });
  const late = await withPage("/", async (page) => {
    const link = page.getByRole("link", { name: new RegExp(sale.id) });
    // The list may be up to a second old, and the page loads it only once a minute.
    await eventually("the sale being listed", async () => {
      await page.reload();
      const done = await link.waitFor({ timeout: 2_000 }).then(() => true, () => false);
      return { done, value: await page.innerText("main") };
    });
    await link.click();
    const countdown = await recordText(byTestId(page, "countdown"));
    const ticket = await recordText(byTestId(page, "ticket-step"));
    const [label, disabled] = await byTestId(page, "buy").evaluate(({ textContent, disabled }) => [textContent, disabled]);
    if (label === "Buy") return "the page loaded after the start";
    assert.deepEqual([label, disabled], ["Not yet", true]);
    await signInOnPage(page, unique("mia"));
    await untilBuyButton(page, "enabled");
    if (!countdown.hasShown("Starts in")) return "no countdown was seen";
    if (!ticket.hasShown("Your ticket is ready")) return "the ticket came after the start";
    await byTestId(page, "buy").click();
    await page.waitForURL(/\/order\?/);
    await untilText(page, "headline", "Reserved for you");
    await goToPayment(page);
    await byTestId(page, "sandbox-pay").click();
    await page.waitForURL(/\/order\?/);
    await untilText(page, "headline", "Paid");
    await byTestId(page, "nav-orders").click();
    await untilText(page, "order-link", "Paid");
  });
  if (late) return late;
  const { skus } = await callAdmin("GET", `/activities/${sale.id}/stats`);
  assert.deepEqual([skus[0].left, skus[0].held, skus[0].sold], [2, 0, 1]);
}));

test("an order that is not paid in time expires, and its unit is released", () => retryIfLate(async () => {
  const sale = await publish({ total: 1, payTimeout: 8 });
  return withPage(`/sale?activity=${sale.id}`, async (page) => {
    await buyOnPage(page, unique("leo"));
    const headline = await recordText(byTestId(page, "headline"));
    const left = await recordText(byTestId(page, "pay-left"));
    await untilText(page, "headline", "The time is up");
    await sweep();
    await byTestId(page, "again").click();
    await untilBuyButton(page, "enabled");
    await untilText(page, "left", "1 of 1 left");
    if (!headline.hasShown("Reserved for you")) return "the page loaded after the time was up";
    if (!left.hasShown(/^00:0[1-8]$/)) return "the time left was not seen";
  });
}));

test("a declined payment leaves the order unpaid, and a second payment pays it", async () => {
  const sale = await publish();
  await withPage(`/sale?activity=${sale.id}`, async (page) => {
    await buyOnPage(page, unique("ida"));
    await untilText(page, "headline", "Reserved for you");
    await goToPayment(page);
    await byTestId(page, "sandbox-decline").click();
    await page.waitForURL(/\/order\?/);
    await untilText(page, "headline", "Reserved for you");
    await byTestId(page, "to-payment").click();
    await byTestId(page, "sandbox-pay").click();
    await untilText(page, "headline", "Paid");
  });
});

test("a buyer cancels an order after confirming", async () => {
  const sale = await publish();
  await withPage(`/sale?activity=${sale.id}`, async (page) => {
    await buyOnPage(page, unique("tom"));
    await byTestId(page, "cancel").click();
    await byTestId(page, "dialog-no").click();
    await untilText(page, "headline", "Reserved for you");
    await byTestId(page, "cancel").click();
    await byTestId(page, "dialog-yes").click();
    await untilText(page, "headline", "Cancelled");
  });
  const { skus } = await callAdmin("GET", `/activities/${sale.id}/stats`);
  assert.deepEqual([skus[0].left, skus[0].held], [10, 0]);
});

test("a buyer requests a refund of a paid order", async () => {
  const sale = await publish();
  await withPage(`/sale?activity=${sale.id}`, async (page) => {
    await buyOnPage(page, unique("eva"));
    await untilText(page, "headline", "Reserved for you");
    await goToPayment(page);
    await byTestId(page, "sandbox-pay").click();
    await untilText(page, "headline", "Paid");
    await byTestId(page, "refund").click();
    await byTestId(page, "dialog-yes").click();
    await untilText(page, "headline", /on its way back|Refunded/);
    await sweep();
    await untilText(page, "headline", "Refunded");
  });
});

test("only its owner can open an order", async () => {
  const sale = await publish();
  const user = unique("nele");
  let order;
  await withPage(`/sale?activity=${sale.id}`, async (page) => {
    await buyOnPage(page, user);
    order = orderNoOn(page);
  });
  const owner = await signIn(user);
  await untilOrder(order, "pending_payment", owner);
  await withPage("/orders", async (page) => {
    await byTestId(page, "sign-in-user").fill(unique("stranger"));
    await byTestId(page, "sign-in-send").click();
    await untilText(page, "orders-state", "You have no orders yet");
    await page.goto(`/order?order_no=${order}`);
    await page.getByRole("heading", { name: "not yours" }).waitFor();
  });
  assert.equal((await call("GET", "/api/orders", { token: owner.token })).length, 1);
});

test("a page restored from the back/forward cache shows no old notice", async () => {
  // The browser may evict a page from its back/forward cache.
  for (let tries = 3; !(await goBackAndCheckNotices()); tries -= 1) {
    assert.ok(tries > 1, "the browser kept no page in its back/forward cache");
  }
});

async function goBackAndCheckNotices() {
  const { id } = await publish();
  let wereKept = true;
  await withPage(`/sale?activity=${id}`, async (page) => {
    const recordPersisted = async () => {
      await page.evaluate(() => addEventListener("pageshow", ({ persisted }) => (globalThis.kept = persisted)));
    };
    await signInOnPage(page, unique("bea"));
    await untilBuyButton(page, "enabled");
    await recordPersisted();
    await byTestId(page, "buy").click();
    await page.waitForURL(/\/order\?/);
    await byTestId(page, "pay-form").waitFor();
    await recordPersisted();
    await goToPayment(page);
    for (const path of [/\/order\?/, /\/sale\?/]) {
      await page.goBack({ waitUntil: "commit" });
      await page.waitForURL(path, { waitUntil: "commit" });
      wereKept &&= await page
        .waitForFunction(() => globalThis.kept, null, { timeout: 5_000 })
        .then(() => true, () => false);
      await byTestId(page, "notice").waitFor({ state: "hidden" });
    }
  });
  return wereKept;
}

test("after the device slept, the page corrects the time left to pay", async () => {
  const { id } = await publish({ payTimeout: 600 });
  await withPage(`/sale?activity=${id}`, async (page) => {
    // Simulates a device whose `performance.now()` stops during sleep.
    await page.addInitScript(() => {
      const now = performance.now.bind(performance);
      globalThis.slept = 0;
      performance.now = () => now() - globalThis.slept;
    });
    await page.reload();
    await buyOnPage(page, unique("ivy"));
    await untilText(page, "pay-left", /^0[89]:|^10:/);
    await page.evaluate(() => (globalThis.slept = 300_000));
    await untilText(page, "pay-left", /^1[345]:/);
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await untilText(page, "pay-left", /^0[89]:/);
  });
});
