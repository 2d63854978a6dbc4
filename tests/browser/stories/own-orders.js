// A buyer who comes back to a sale with an order to pay.

import { publish, reserve, signIn, stock, unique } from "../support/app.js";
import { buyNow, clickAndConfirm, countRequests, openSale, signInOnPage, untilCanBuy, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

const ORDERS = /\/api\/activities\/[^/]+\/orders$/;
const LIST = /\/api\/orders\?/;

/** Signs in and buys on the sale's page. Resolves to the address of the order's page, which is then open. */
async function buyOne(page, id, user = unique("ivo")) {
  await page.goto(`/sale?activity=${id}`);
  await signInOnPage(page, user);
  await buyNow(page);
  await untilText(page, "headline", /./);
  return page.url();
}

for (const [how, comeBack] of [
  ["goes back", async (page) => {
    await page.goBack({ waitUntil: "commit" });
    return page;
  }],
  ["opens the sale in a second tab", async (page, sale) => {
    const tab = await page.context().newPage();
    await tab.goto(sale);
    return tab;
  }],
]) {
  test(`a buyer with an order to pay who ${how} is led to it, and a tap makes no second order`, { tag: "@phone" }, async ({ page: first, words }) => {
    const { id } = await publish({ perUser: 3 });
    const order = await buyOne(first, id);
    const count = countRequests(first.context(), ORDERS);
    const page = await comeBack(first, `/sale?activity=${id}`);
    await page.waitForURL(/\/sale\?/, { waitUntil: "commit" });
    await untilText(page, "to-pay", /[45]:\d\d/);
    const [before] = await page.getByTestId("to-pay-text").allTextContents();
    await expect(page.getByTestId("to-pay-text"), "the time counts down").not.toHaveText(before);
    await expect(page.getByTestId("buy")).toHaveText(words["bar.pay"]);
    await page.getByTestId("buy").click();
    await page.waitForURL(order);
    expect(count.requests).toBe(0);
    expect((await stock(id)).held).toBe(1);
  });
}

test("a buyer with an order to pay buys another one where the limit allows it, by asking for it", async ({ page }) => {
  const { id } = await publish({ perUser: 2 });
  const first = await buyOne(page, id);
  await page.goto(`/sale?activity=${id}`);
  await page.getByTestId("buy-another").click();
  await expect(page.getByTestId("buy")).toHaveText(/^Buy 1/);
  await page.getByTestId("buy").click();
  await page.waitForURL(/\/order\?/);
  expect(page.url()).not.toBe(first);
  await untilText(page, "headline", /./);
  await page.goto(`/sale?activity=${id}`);
  await untilText(page, "to-pay", /You have an order to pay/);
  await expect(page.getByTestId("buy-another"), "the limit is reached").toBeHidden();
});

test("a cancelled or expired order, or one of another user, is no order to pay", async ({ page }) => {
  const { id } = await publish({ payTimeout: 12 });
  const user = unique("ivo");
  await buyOne(page, id, user);
  await clickAndConfirm(page, "cancel");
  await untilText(page, "headline", "Order cancelled");
  await page.getByTestId("again").click();
  await expect(page.getByTestId("buy")).toHaveText(/^Buy 1/);
  await expect(page.getByTestId("to-pay")).toBeHidden();
  await page.getByTestId("buy").click();
  await page.waitForURL(/\/order\?/);
  await page.goto(`/sale?activity=${id}`);
  await expect(page.getByTestId("to-pay")).toBeVisible();
  await page.getByTestId("sign-out").click();
  await expect(page.getByTestId("to-pay")).toBeHidden();
  for (const name of [unique("ben"), user]) {
    const listed = page.waitForResponse(LIST);
    await signInOnPage(page, name);
    await listed;
    if (name === user) break;
    await expect(page.getByTestId("buy")).toHaveText(/^Buy 1/);
    await expect(page.getByTestId("to-pay")).toBeHidden();
    await page.getByTestId("sign-out").click();
  }
  // Its time runs out.
  await expect(page.getByTestId("to-pay")).toBeHidden();
  await expect(page.getByTestId("buy")).toHaveText(/^Buy 1/);
});

test("a visitor, and a buyer who got nothing, request no list of orders", async ({ page }) => {
  const lists = countRequests(page, LIST);
  const { id } = await openSale(page, { total: 1 });
  await untilCanBuy(page);
  await page.route(ORDERS, async (route) => {
    await reserve(id, await signIn(unique("win")));
    await route.continue();
  });
  await page.getByTestId("buy").click();
  await untilText(page, "notice", "sold out");
  await page.reload();
  await untilText(page, "outcome", "Sold out");
  expect(lists.requests).toBe(0);
});
