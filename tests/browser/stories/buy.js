// Stories of a buyer: from the list of sales to the paid, cancelled, expired or refunded order.

import { call, changeSale, eventually, publish, signIn, stock, sweep, unique, untilOrder } from "../support/app.js";
import {
  buyNow, clickAndConfirm, enterName, goToPayment, openSale, payNow, recordText, signInOnPage, untilCanBuy, untilText,
} from "../support/page.js";
import { retryIfLate } from "../support/retry-if-late.js";
import { expect, test } from "../support/test.js";

/** Signs in and buys on a sale page that is already open. Ends on the order's page. */
async function buyOnPage(page, user) {
  await signInOnPage(page, user);
  await buyNow(page);
}

const STORY = "a buyer signs in, waits for the start, buys, pays, and sees the order paid";

test(STORY, { tag: "@main" }, ({ newPage, words }) => retryIfLate(async () => {
  const sale = await publish({ startsIn: 15_000, total: 3 });
  const page = await newPage("/");
  const link = page.getByRole("link", { name: new RegExp(sale.id) });
  // The list may be up to a second old, and the page loads it only once a minute.
  await eventually("the sale being listed", async () => {
    await page.reload();
    const done = await link.waitFor({ timeout: 2_000 }).then(() => true, () => false);
    return { done, value: await page.innerText("main") };
  });
  await link.click();
  const countdown = await recordText(page.getByTestId("countdown"));
  const ticket = await recordText(page.getByTestId("ticket-step"));
  await expect(page.getByTestId("buy")).not.toHaveText(words["sale.held"]);
  const [label, disabled] = await page.getByTestId("buy").evaluate(({ textContent, disabled }) => [textContent, disabled]);
  if (label === words["sign_in.buy"]) return "the page loaded after the start";
  expect([label, disabled]).toEqual([words["sign_in.take_part"], false]);
  await signInOnPage(page, unique("mia"));
  await untilCanBuy(page);
  if (!countdown.hasShown(words["phase.scheduled"])) return "no countdown was seen";
  if (!ticket.hasShown(words["steps.ticket_ready"])) return "the ticket came after the start";
  await page.getByTestId("buy").click();
  await page.waitForURL(/\/order\?/);
  await untilText(page, "headline", words["order.yours_for"].split("{")[0]);
  await payNow(page, words["order.paid"]);
  await page.getByTestId("nav-orders").click();
  await untilText(page, "order-link", words["status.paid"]);
  expect(await stock(sale.id)).toMatchObject({ left: 2, held: 0, sold: 1 });
}));

test("an order that is not paid in time expires, and its unit is released", ({ newPage }) => retryIfLate(async () => {
  const sale = await publish({ total: 1, payTimeout: 8 });
  const page = await newPage(`/sale?activity=${sale.id}`);
  await buyOnPage(page, unique("leo"));
  const headline = await recordText(page.getByTestId("headline"));
  const left = await recordText(page.getByTestId("pay-left"));
  await untilText(page, "headline", "Time’s up");
  await sweep();
  await page.getByTestId("again").click();
  await untilCanBuy(page);
  await untilText(page, "left", "1 of 1 left");
  if (!headline.hasShown("It’s yours")) return "the page loaded after the time was up";
  if (!left.hasShown(/^0:0[1-8] left/)) return "the time left was not seen";
}));

test("a buyer buys in a browser whose language Intl does not know", async ({ newPage }) => {
  const sale = await publish();
  const page = await newPage(`/sale?activity=${sale.id}`, { locale: "en-US@posix" });
  await buyOnPage(page, unique("pos"));
  await payNow(page);
});

test("a declined payment is said to have taken nothing, and a second payment pays", async ({ page }) => {
  await openSale(page);
  await buyNow(page);
  await untilText(page, "headline", "It’s yours");
  await goToPayment(page);
  await page.getByTestId("sandbox-decline").click();
  await page.waitForURL(/\/order\?/);
  await untilText(page, "headline", "The payment was declined");
  await untilText(page, "order", "You were not charged.");
  await untilText(page, "to-payment", "Try the payment again");
  await page.getByTestId("to-payment").click();
  await page.getByTestId("sandbox-pay").click();
  await untilText(page, "headline", "Paid");
});

test("a buyer cancels an order after confirming", async ({ page }) => {
  const sale = await openSale(page);
  await buyNow(page);
  await page.getByTestId("cancel").click();
  await page.getByTestId("dialog-no").click();
  await untilText(page, "headline", "It’s yours");
  await clickAndConfirm(page, "cancel");
  await untilText(page, "headline", "Order cancelled");
  expect(await stock(sale.id)).toMatchObject({ left: 10, held: 0 });
});

test("a buyer requests a refund of a paid order", async ({ page }) => {
  await openSale(page);
  await buyNow(page);
  await payNow(page);
  // The first poll afterwards gets what Redis had before it heard of the refund.
  const isPoll = (url) => /^\/api\/orders\/[^/]+$/.test(url.pathname);
  const paid = page.waitForResponse((response) => isPoll(new URL(response.url())) && response.status() === 200);
  await page.reload();
  const outdated = await (await paid).json();
  expect(outdated.status).toBe("paid");
  await page.route(isPoll, (route) => route.fulfill({ json: outdated }), { times: 1 });
  await clickAndConfirm(page, "refund");
  await untilText(page, "headline", /on its way|Refunded/);
  await sweep();
  await untilText(page, "headline", "Refunded");
});

test("a paid order shows no refund where the sale takes no requests", async ({ page }) => {
  const sale = await publish({ refund_window_seconds: 0 });
  await page.goto(`/sale?activity=${sale.id}`);
  await expect(page.getByText("No refunds on request.")).toBeVisible();
  await buyOnPage(page, unique("eva"));
  await payNow(page);
  await untilText(page, "bought", "1 × The item");
  await expect(page.getByTestId("refund")).toBeHidden();
});

test("a paid order says until when refunds are taken, and a request that comes too late says so", async ({ page }) => {
  const sale = await publish({ refund_window_seconds: 86_400 });
  await page.goto(`/sale?activity=${sale.id}`);
  await expect(page.getByText("Refunds within 1 day of payment.")).toBeVisible();
  await buyOnPage(page, unique("eva"));
  await payNow(page);
  await expect(page.getByText("Refundable until")).toBeVisible();
  await changeSale(sale.id, { refund_window_seconds: 0 });
  await clickAndConfirm(page, "refund");
  await untilText(page, "notice", "The time for refunds of this drop is over. Please ask the shop.");
});

// ISO 4217 counts: the browser's own number of decimals is 0 for HUF and IQD.
const PRICES = { EUR: "€19.99", JPY: "¥1,999", KWD: "KWD 1.999", HUF: "HUF 19.99", IQD: "IQD 1.999", ISK: "ISK 1,999" };

for (const [currency, text] of Object.entries(PRICES)) {
  test(`${currency} is shown with its own number of decimals, on the payment page too`, async ({ page }) => {
    const { id } = await publish({ skus: [{ sku: "item", name: "The item", price: 1_999, currency, total: 10 }] });
    await page.goto(`/sale?activity=${id}`);
    await expect(page.getByTestId("sku")).toContainText(text.replace(" ", "\u00a0"));
    await buyOnPage(page, unique("yen"));
    await goToPayment(page);
    await untilText(page, "sandbox-amount", text.replace(" ", "\u00a0"));
  });
}

test("the buyer's orders show an order that is still queued, with the item's name", async ({ page }) => {
  await openSale(page);
  await buyNow(page);
  const asQueued = (order) => ({ ...order, status: "queued" });
  await page.route(/\/api\/orders[?/]/, async (route) => {
    const response = await route.fetch();
    if (response.status() === 304) return route.fulfill({ response });
    const data = await response.json();
    await route.fulfill({ response, json: Array.isArray(data) ? data.map(asQueued) : asQueued(data) });
  });
  await page.goto("/orders");
  await untilText(page, "order-link", "1 × The item");
  await untilText(page, "order-link", "Reserved");
});

test("only its owner can open an order", async ({ page, newPage }) => {
  const sale = await publish();
  const user = unique("nele");
  await page.goto(`/sale?activity=${sale.id}`);
  await buyOnPage(page, user);
  const order = new URL(page.url()).searchParams.get("order_no");
  const owner = await signIn(user);
  await untilOrder(order, "pending_payment", owner);
  const other = await newPage("/orders");
  await enterName(other, unique("stranger"));
  await untilText(other, "orders-state", "You have no orders yet");
  await other.goto(`/order?order_no=${order}`);
  await expect(other.getByRole("heading", { name: "not yours" })).toBeVisible();
  expect((await call("GET", "/api/orders", { token: owner.token })).items).toHaveLength(1);
});

test("a page restored from the back/forward cache shows no old notice", async ({ newPage }) => {
  // The browser may evict a page from its back/forward cache.
  for (let tries = 3; !(await goBackAndCheckNotices(newPage)); tries -= 1) {
    expect(tries, "the browser kept no page in its back/forward cache").toBeGreaterThan(1);
  }
});

async function goBackAndCheckNotices(newPage) {
  const { id } = await publish();
  let wereKept = true;
  const page = await newPage(`/sale?activity=${id}`);
  const recordPersisted = async () => {
    await page.evaluate(() => addEventListener("pageshow", ({ persisted }) => (globalThis.kept = persisted)));
  };
  await signInOnPage(page, unique("bea"));
  await untilCanBuy(page);
  await recordPersisted();
  await page.getByTestId("buy").click();
  await page.waitForURL(/\/order\?/);
  await expect(page.getByTestId("pay-form")).toBeVisible();
  await recordPersisted();
  await goToPayment(page);
  for (const path of [/\/order\?/, /\/sale\?/]) {
    await page.goBack({ waitUntil: "commit" });
    await page.waitForURL(path, { waitUntil: "commit" });
    wereKept &&= await page
      .waitForFunction(() => globalThis.kept, null, { timeout: 5_000 })
      .then(() => true, () => false);
    await expect(page.getByTestId("notice")).toBeHidden();
  }
  return wereKept;
}

test("after the device slept, the page corrects the time left to pay", async ({ page }) => {
  const { id } = await publish({ payTimeout: 600 });
  await page.goto(`/sale?activity=${id}`);
  // Simulates a device whose `performance.now()` stops during sleep.
  await page.addInitScript(() => {
    const now = performance.now.bind(performance);
    globalThis.slept = 0;
    performance.now = () => now() - globalThis.slept;
  });
  await page.reload();
  await buyOnPage(page, unique("ivy"));
  await untilText(page, "pay-left", /^[89]:|^10:/);
  await page.evaluate(() => (globalThis.slept = 300_000));
  await untilText(page, "pay-left", /^1[345]:/);
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await untilText(page, "pay-left", /^[89]:/);
});
