// Refusals: sold out, limit per user, paused, ended (A4, B9).

import { call, callAdmin, changeSale, publish, publishEnded, reserve, signIn, unique, untilOrder } from "../support/app.js";
import { buyNow, changeAnswers, goToPayment, holdAnswers, openSale, recordText, signInOnPage, untilCanBuy, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

test("a sold-out sale leads to the next one, and can be bought when a unit is released", async ({ page }) => {
  const { id } = await publish({ total: 1 });
  const other = await signIn();
  const { order_no: order } = await reserve(id, other);
  await untilOrder(order, "pending_payment", other);
  await page.goto(`/sale?activity=${id}`);
  await signInOnPage(page, unique("zoe"));
  await untilText(page, "outcome", "Sold out");
  await expect(page.getByTestId("buy")).toHaveAttribute("data-action", "next");
  await call("POST", `/api/orders/${order}/cancel`, { token: other.token, body: {} });
  await buyNow(page);
});

test("a refusal shows its reason and ends the attempt", async ({ page }) => {
  const { id } = await openSale(page, { total: 1 });
  await untilCanBuy(page);
  // The page's copy of the gate is older than the reservation of the last unit.
  await changeAnswers(page, /gate\.json$/, (gate) => ({ ...gate, sold_out: [] }));
  await reserve(id, await signIn());
  let requests = 0;
  page.on("request", (request) => (requests += request.url().endsWith("/orders") ? 1 : 0));
  await page.getByTestId("buy").click();
  await untilText(page, "notice", "Somebody was faster");
  // A finger that taps on does not press what replaces the button.
  await expect(page.getByTestId("buy")).toBeDisabled();
  await expect(page.getByTestId("buy")).toHaveAttribute("data-action", "next");
  expect(requests).toBe(1);
});

test("a buyer of two is told that one is left, and the next click buys that one", async ({ page }) => {
  const { id } = await openSale(page, { total: 2, perUser: 2 });
  await untilCanBuy(page);
  await page.getByTestId("more").click();
  await expect(page.getByTestId("quantity")).toHaveText("2");
  await reserve(id, await signIn());
  await page.getByTestId("buy").click();
  await untilText(page, "notice", "Only 1 left");
  await expect(page.getByTestId("quantity")).toHaveText("1");
  await expect(page.getByTestId("buy")).toBeEnabled({ timeout: 3_000 });
  await buyNow(page);
});

test("a price that changed before the click is shown, and the next click buys at it", async ({ page }) => {
  const { id } = await openSale(page, { perUser: 2 });
  await untilCanBuy(page);
  await page.getByTestId("more").click();
  await untilText(page, "buy", "€39.98");
  // The page does not hear of the change before the click.
  const release = await holdAnswers(page, /\/api\/activities\/[^/]+$/);
  await changeSale(id, { skus: [{ sku: "item", name: "The item", price: 2_499, currency: "EUR", total: 10 }] });
  await page.getByTestId("buy").click();
  await untilText(page, "notice", "it is now €49.98");
  await untilText(page, "buy", "€49.98");
  expect(page.url()).toContain("/sale?");
  await release();
  await buyNow(page);
  await expect(page.locator("#bought-amount")).toHaveText("€49.98");
});

test("a buyer at the limit per user is led to the order", async ({ page }) => {
  const { id } = await publish({ perUser: 1 });
  const user = unique("jan");
  await reserve(id, await signIn(user));
  await page.goto(`/sale?activity=${id}`);
  await signInOnPage(page, user);
  await untilCanBuy(page);
  await page.getByTestId("buy").click();
  await untilText(page, "to-pay-text", "You have an order to pay");
});

test("a paused sale shows a notice and continues without a reload", async ({ page }) => {
  const { id } = await publish();
  await callAdmin("POST", `/activities/${id}/pause`, {});
  await page.goto(`/sale?activity=${id}`);
  await untilText(page, "buy", "Paused");
  await untilText(page, "outcome", "This page continues by itself.");
  await callAdmin("POST", `/activities/${id}/resume`, {});
  await untilText(page, "buy", "Sign in to buy");
});

test("a gate that is briefly missing is polled again", async ({ page }) => {
  const { id } = await publish();
  await page.goto(`/sale?activity=${id}`);
  await expect(page.getByTestId("buy")).toBeVisible();
  const missing = await recordText(page.locator("#missing"));
  await page.route(/gate\.json$/, (route) => route.fulfill({ status: 404, json: { status: 404, code: "not_found" } }), {
    times: 2,
  });
  await missing.untilShown("There is no such drop");
  await callAdmin("POST", `/activities/${id}/pause`, {});
  await untilText(page, "buy", "Paused");
  await expect(page.locator("#missing")).toBeHidden();
});

test("an ended sale and an unknown sale each show a message", async ({ page }) => {
  const id = await publishEnded();
  await page.goto(`/sale?activity=${id}`);
  await untilText(page, "outcome", "This drop has ended");
  await page.goto(`/sale?activity=${unique("nothing")}`);
  await expect(page.getByRole("heading", { name: "There is no such drop" })).toBeVisible();
});

test("a page that was opened before the sale is published shows it afterwards", async ({ page }) => {
  const id = unique("later");
  const now = Date.now();
  const sale = {
    title: "Published late", starts_at: new Date(now - 1_000).toISOString(), ends_at: new Date(now + 600_000).toISOString(),
    skus: [{ sku: "item", name: "The item", price: 1_999, currency: "EUR", total: 10 }],
  };
  await callAdmin("PUT", `/activities/${id}`, sale);
  let misses = 0;
  page.on("response", (response) => (misses += response.status() === 404 ? 1 : 0));
  await page.goto(`/sale?activity=${id}`);
  await expect(page.getByRole("heading", { name: "There is no such drop, or it is not open to the public yet." })).toBeVisible();
  await expect(() => expect(misses).toBeGreaterThanOrEqual(5)).toPass();
  await callAdmin("POST", `/activities/${id}/publish`, {});
  // As when the visitor comes back to the tab. A function may remember for some seconds that there is no such sale.
  await expect(async () => {
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await expect(page.getByTestId("title")).toHaveText("Published late", { timeout: 1_000 });
  }).toPass({ timeout: 30_000 });
  await untilCanBuy(page);
});

test("a payment that opens slowly is opened without another click, and the list offers another try", async ({ page }) => {
  await openSale(page);
  await page.getByTestId("buy").click();
  await page.waitForURL(/\/order\?/);
  const order = page.url();
  const busy = { status: 503, headers: { "retry-after": "1" }, json: { status: 503, code: "not_ready" } };
  await page.route(/\/checkout$/, (route) => route.fulfill(busy), { times: 2 });
  const notice = await recordText(page.getByTestId("notice"));
  await goToPayment(page);
  await notice.untilShown(/Next try in \d s/);
  await page.goto(order);
  await page.route(/\/api\/orders\?/, (route) => route.abort(), { times: 1 });
  await page.getByTestId("nav-orders").click();
  await expect(page.locator("#state")).toContainText("The shop does not answer.");
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByTestId("order-link")).toHaveCount(1);
});
