// The way back from the sandbox's payment page: only to a page of its own origin.

import { ADDRESS, call, orderOf, publish, url } from "../support/app.js";
import { expect, test } from "../support/test.js";

test("the payment page leads back to a path, and to no other origin", async ({ page, baseURL }) => {
  const { id } = await publish();
  for (const [target, leadsBack] of [
    ["https://evil.example/order", false], ["//evil.example/order", false], ["/\\evil.example/order", false],
    ["javascript:document.title='evil'", false], ["data:text/html,evil", false], ["/orders", true],
  ]) {
    const { buyer, order } = await orderOf(id);
    const { checkout_url: checkout } =
      await call("POST", `/api/orders/${order}/checkout`, { token: buyer.token, body: { address: ADDRESS } });
    await page.goto(`${new URL(checkout, baseURL).pathname}?return=${encodeURIComponent(target)}`);
    await page.getByTestId("sandbox-pay").click();
    if (leadsBack) {
      await page.waitForURL(`${baseURL}${target}`);
    } else {
      await expect(page.getByText("You can go back to the shop.")).toBeVisible();
      expect([new URL(page.url()).origin, await page.title()]).not.toContain("evil");
      expect(page.url().startsWith(`${baseURL}/sandbox/pay/`), page.url()).toBe(true);
    }
  }
});

test("the payment page leads back to the order's page of the shop, where nothing else is asked for", async ({ page, baseURL }) => {
  const { id } = await publish();
  const { buyer, order } = await orderOf(id);
  const { checkout_url: checkout } =
    await call("POST", `/api/orders/${order}/checkout`, { token: buyer.token, body: { address: ADDRESS } });
  await page.goto(new URL(checkout, baseURL).pathname);
  await page.getByTestId("sandbox-pay").click();
  await page.waitForURL(`${baseURL}/order?order_no=${order}&payment=done`);
});

test("the payment page has the language of the shop's pages, and dark colours where they are preferred", async ({ newPage }) => {
  const { id } = await publish();
  const { buyer, order } = await orderOf(id);
  const { checkout_url: checkout } =
    await call("POST", `/api/orders/${order}/checkout`, { token: buyer.token, body: { address: ADDRESS } });
  for (const [locale, colorScheme, label, ground] of [
    ["zh-CN", "dark", "付款", "rgb(21, 19, 18)"], ["en-GB", "light", "Pay", "rgb(247, 245, 242)"],
  ]) {
    const page = await newPage(new URL(checkout, url()).pathname, { locale, colorScheme });
    await expect(page.getByTestId("sandbox-pay")).toHaveText(label);
    expect(await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).toBe(ground);
  }
});
