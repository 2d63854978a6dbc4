// A buyer's way: from the list to the paid order, and the other ends of it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { call, eventually, operate, publish, signIn, sweep, unique, untilOrder } from "../support/app.js";
import { goToPayment, listenTo, part, signInOn, untilButton, untilSays, withPage } from "../support/browser.js";
import { measured } from "../support/measured.js";

const orderOn = (page) => new URL(page.url()).searchParams.get("order_no");

/** Buys on a sale's page that is open already; the order's page is there afterwards. */
async function buyOn(page, user) {
  await signInOn(page, user);
  await untilButton(page, "enabled");
  await part(page, "buy").click();
  await page.waitForURL(/\/order\?/);
}

test("somebody signs in, waits for the start, buys, pays, and sees the order paid", () => measured(async () => {
  const sale = await publish({ startsIn: 15_000, total: 3 });
  const late = await withPage("/", async (page) => {
    const link = page.getByRole("link", { name: new RegExp(sale.id) });
    // The list may be a second older than the sale, and is asked for once a minute.
    await eventually("the sale being listed", async () => {
      await page.reload();
      const done = await link.waitFor({ timeout: 2_000 }).then(() => true, () => false);
      return { done, value: await page.innerText("main") };
    });
    await link.click();
    const [countdown, ticket] = [await listenTo(part(page, "countdown")), await listenTo(part(page, "ticket-step"))];
    const [label, grey] = await part(page, "buy").evaluate(({ textContent, disabled }) => [textContent, disabled]);
    if (label === "Buy") return "the page came after the start";
    assert.deepEqual([label, grey], ["Not yet", true]);
    await signInOn(page, unique("mia"));
    await untilButton(page, "enabled");
    if (!countdown.hasSaid("Starts in")) return "no countdown was seen";
    if (!ticket.hasSaid("Your ticket is ready")) return "the ticket came after the start";
    await part(page, "buy").click();
    await page.waitForURL(/\/order\?/);
    await untilSays(page, "headline", "Reserved for you");
    await goToPayment(page);
    await part(page, "sandbox-pay").click();
    await page.waitForURL(/\/order\?/);
    await untilSays(page, "headline", "Paid");
    await part(page, "nav-orders").click();
    await untilSays(page, "order-link", "Paid");
  });
  if (late) return late;
  const { skus } = await operate("GET", `/activities/${sale.id}/stats`);
  assert.deepEqual([skus[0].left, skus[0].held, skus[0].sold], [2, 0, 1]);
}));

test("an order that is not paid in time expires, and its unit comes back", () => measured(async () => {
  const sale = await publish({ total: 1, payTimeout: 8 });
  return withPage(`/sale?activity=${sale.id}`, async (page) => {
    await buyOn(page, unique("leo"));
    const [headline, left] = [await listenTo(part(page, "headline")), await listenTo(part(page, "pay-left"))];
    await untilSays(page, "headline", "The time is up");
    await sweep();
    await part(page, "again").click();
    await untilButton(page, "enabled");
    await untilSays(page, "left", "1 of 1 left");
    if (!headline.hasSaid("Reserved for you")) return "the page came after the time was up";
    if (!left.hasSaid(/^00:0[1-8]$/)) return "the time left was not seen";
  });
}));

test("a declined payment leaves the order as it was, and a second one pays it", async () => {
  const sale = await publish();
  await withPage(`/sale?activity=${sale.id}`, async (page) => {
    await buyOn(page, unique("ida"));
    await untilSays(page, "headline", "Reserved for you");
    await goToPayment(page);
    await part(page, "sandbox-decline").click();
    await page.waitForURL(/\/order\?/);
    await untilSays(page, "headline", "Reserved for you");
    await part(page, "to-payment").click();
    await part(page, "sandbox-pay").click();
    await untilSays(page, "headline", "Paid");
  });
});

test("a buyer cancels, and is asked first", async () => {
  const sale = await publish();
  await withPage(`/sale?activity=${sale.id}`, async (page) => {
    await buyOn(page, unique("tom"));
    await part(page, "cancel").click();
    await part(page, "dialog-no").click();
    await untilSays(page, "headline", "Reserved for you");
    await part(page, "cancel").click();
    await part(page, "dialog-yes").click();
    await untilSays(page, "headline", "Cancelled");
  });
  const { skus } = await operate("GET", `/activities/${sale.id}/stats`);
  assert.deepEqual([skus[0].left, skus[0].held], [10, 0]);
});

test("a buyer asks for a refund of a paid order", async () => {
  const sale = await publish();
  await withPage(`/sale?activity=${sale.id}`, async (page) => {
    await buyOn(page, unique("eva"));
    await untilSays(page, "headline", "Reserved for you");
    await goToPayment(page);
    await part(page, "sandbox-pay").click();
    await untilSays(page, "headline", "Paid");
    await part(page, "refund").click();
    await part(page, "dialog-yes").click();
    await untilSays(page, "headline", /on its way back|Refunded/);
    await sweep();
    await untilSays(page, "headline", "Refunded");
  });
});

test("an order opens for its owner alone", async () => {
  const sale = await publish();
  const user = unique("nele");
  let order;
  await withPage(`/sale?activity=${sale.id}`, async (page) => {
    await buyOn(page, user);
    order = orderOn(page);
  });
  const owner = await signIn(user);
  await untilOrder(order, "pending_payment", owner);
  await withPage("/orders", async (page) => {
    await part(page, "sign-in-user").fill(unique("stranger"));
    await part(page, "sign-in-send").click();
    await untilSays(page, "orders-state", "You have no orders yet");
    await page.goto(`/order?order_no=${order}`);
    await page.getByRole("heading", { name: "not yours" }).waitFor();
  });
  assert.equal((await call("GET", "/api/orders", { token: owner.token })).length, 1);
});

test("who goes back finds no page that is still busy", async () => {
  // A browser may drop a page that it kept.
  for (let tries = 3; !(await goesBackAtRest()); tries -= 1) assert.ok(tries > 1, "no page was kept");
});

async function goesBackAtRest() {
  const { id } = await publish();
  let kept = true;
  await withPage(`/sale?activity=${id}`, async (page) => {
    const back = async () => {
      await page.evaluate(() => addEventListener("pageshow", ({ persisted }) => (globalThis.kept = persisted)));
    };
    await signInOn(page, unique("bea"));
    await untilButton(page, "enabled");
    await back();
    await part(page, "buy").click();
    await page.waitForURL(/\/order\?/);
    await part(page, "pay-form").waitFor();
    await back();
    await goToPayment(page);
    for (const path of [/\/order\?/, /\/sale\?/]) {
      await page.goBack({ waitUntil: "commit" });
      await page.waitForURL(path, { waitUntil: "commit" });
      kept &&= await page.waitForFunction(() => globalThis.kept, null, { timeout: 5_000 }).then(() => true, () => false);
      await part(page, "notice").waitFor({ state: "hidden" });
    }
  });
  return kept;
}

test("a phone that slept shows the time that is really left to pay", async () => {
  const { id } = await publish({ payTimeout: 600 });
  await withPage(`/sale?activity=${id}`, async (page) => {
    // While a computer sleeps, its page's clock may stand still.
    await page.addInitScript(() => {
      const now = performance.now.bind(performance);
      globalThis.slept = 0;
      performance.now = () => now() - globalThis.slept;
    });
    await page.reload();
    await buyOn(page, unique("ivy"));
    await untilSays(page, "pay-left", /^0[89]:|^10:/);
    await page.evaluate(() => (globalThis.slept = 300_000));
    await untilSays(page, "pay-left", /^1[345]:/);
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await untilSays(page, "pay-left", /^0[89]:/);
  });
});
