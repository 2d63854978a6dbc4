// The list of a buyer's orders while they can change (D6).

import { createOrder } from "../support/app.js";
import { changeAnswers, recordText, setHidden, untilText } from "../support/page.js";
import { retryIfLate } from "../support/retry-if-late.js";
import { expect, test } from "../support/test.js";

/** Reserves a unit for a buyer who is signed in on the page. Resolves to the order's number. */
async function reserveOn(page, sale = {}) {
  const { buyer, order } = await createOrder(sale);
  await page.addInitScript((token) => localStorage.setItem("stampede.token", token), buyer.token);
  return order;
}

/** The words of an element's text that are broken into several lines. */
const brokenWords = (element) => element.evaluate(({ firstChild: text }) => {
  const isBroken = ({ 0: word, index }) => {
    const range = new Range();
    range.setStart(text, index);
    range.setEnd(text, index + word.length);
    return range.getClientRects().length > 1;
  };
  return [...text.data.matchAll(/\S+/g)].filter(isBroken).map(String);
});

/** By how many pixels the page is wider than the window; `innerWidth` of a phone grows with the page. */
const overflow = (page) =>
  page.evaluate((width) => document.scrollingElement.scrollWidth - width, page.viewportSize().width);

test("an order to be paid can be read, says how long it is held, and leads to its payment", { tag: "@phone" }, async ({ page, words }) => {
  const item = { sku: "item", name: "Rangefinder body", price: 189_900, currency: "EUR", total: 1 };
  const order = await reserveOn(page, { skus: [item] });
  await page.goto("/orders");
  await untilText(page, "order-link", "1 × Rangefinder body");
  const pay = page.getByTestId("order-pay");
  await expect(pay).toHaveText(new RegExp(words["orders.pay"].replace("{left}", "\\d:\\d\\d")));
  await expect(pay).not.toHaveText(await pay.textContent());
  for (const width of [page.viewportSize().width, 320]) {
    await page.setViewportSize({ width, height: 700 });
    for (const text of await page.getByTestId("order-link").locator("strong, .chip").all()) {
      expect(await brokenWords(text), `at ${width} px`).toEqual([]);
    }
    expect(await overflow(page), `at ${width} px`).toBe(0);
  }
  await pay.click();
  await page.waitForURL(`**/order?order_no=${order}`);
  await expect(page.getByTestId("pay-form")).toBeVisible();
});

test("sales whose orders cannot be read are named above the orders of the others", { tag: "@phone" }, async ({ page, words }) => {
  await reserveOn(page);
  const unread = ["sale-2", "s".repeat(40)];
  await page.route(/\/api\/orders\?/, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, headers: { ...response.headers(), "x-unread-activities": unread.join(" ") } });
  });
  await page.setViewportSize({ width: 320, height: 700 });
  await page.goto("/orders");
  await untilText(page, "orders-unread", words["orders.unread"].replace("{sales}", unread.join(", ")));
  await expect(page.getByTestId("order-link")).toBeVisible();
  expect(await overflow(page)).toBe(0);
  await page.unrouteAll();
  await page.reload();
  await expect(page.getByTestId("order-link")).toBeVisible();
  await expect(page.getByTestId("orders-unread")).toBeHidden();
});

test("an order that is not paid in time expires in the list", ({ newPage }) => retryIfLate(async () => {
  const page = await newPage();
  await reserveOn(page, { payTimeout: 8 });
  await page.goto("/orders");
  const row = await recordText(page.getByTestId("order-link"));
  await untilText(page, "order-link", "Expired");
  await expect(page.getByTestId("order-pay")).toBeHidden();
  if (!row.hasShown(/To be paid/)) return "the page loaded after the time was up";
}));

test("the list asks for an order while it can change and the page is shown, and not more often than it may", async ({ page }) => {
  await page.clock.install();
  const order = await reserveOn(page);
  let status = "queued";
  let isRefused = false;
  let [asked, refused] = [0, 0];
  await changeAnswers(page, /\/api\/orders\?/, (page) => ({ ...page, items: page.items.map((listed) => ({ ...listed, status })) }));
  await page.route(`**/api/orders/${order}`, async (route) => {
    asked += 1;
    if (isRefused) {
      refused += 1;
      return route.fulfill({ status: 503, headers: { "retry-after": "300" }, json: { code: "not_ready" } });
    }
    const response = await route.fetch();
    await route.fulfill({ response, headers: { "retry-after": "5" }, json: { ...(await response.json()), status } });
  });
  await page.goto("/orders");
  await untilText(page, "order-link", "Reserved");
  await expect(page.getByTestId("order-pay")).toBeHidden();
  status = "pending_payment";
  await page.clock.runFor(6_000);
  await untilText(page, "order-link", "To be paid");
  await expect(page.getByTestId("order-pay")).toBeVisible();

  await setHidden(page, true);
  // What was due when the page was hidden.
  await page.clock.runFor(6_000);
  asked = 0;
  await page.clock.runFor(60_000);
  expect(asked, "while the page is hidden").toBe(0);
  isRefused = true;
  await setHidden(page, false);
  await expect.poll(() => refused).toBe(1);
  await untilText(page, "orders-state", "We are getting ready");
  await page.clock.runFor(100_000);
  expect(refused, "before Retry-After").toBe(1);
  isRefused = false;
  status = "paid";
  await page.clock.runFor(220_000);
  await untilText(page, "order-link", "Paid");
  await expect(page.getByTestId("order-pay")).toBeHidden();
  await expect(page.getByTestId("orders-state")).toHaveText("");
  asked = 0;
  await page.clock.runFor(600_000);
  expect(asked, "of a paid order").toBe(0);
});
