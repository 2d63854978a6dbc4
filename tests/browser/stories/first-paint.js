// What a visitor sees before any module has loaded: the page as a slow phone shows it first.

import { call, publish } from "../support/app.js";
import { expect, test } from "../support/test.js";

const SKUS = [
  { sku: "one", name: "One", image: "/demo/film.svg", price: 189_900, currency: "EUR", total: 10 },
  { sku: "two", name: "Two", price: 1_905, currency: "EUR", total: 10 },
];

/** Publishes a sale, and waits until its page has its data. */
async function publishShown(baseURL) {
  const { id } = await publish({ title: "Lamps", titles: { "zh-Hans": "灯", "zh-Hant": "燈" }, skus: SKUS, startsIn: 600_000 });
  await call("GET", `/api/activities/${id}`);
  const path = `/sale?activity=${id}`;
  await expect.poll(async () => (await fetch(baseURL + path)).text()).toContain("first-data");
  return path;
}

test("a sale has its title, picture, lowest price and times before its modules, in the visitor's language", async ({ browser, baseURL }) => {
  const path = await publishShown(baseURL);
  for (const [locale, chosen, title, price, orders, month] of [
    ["en-GB", null, "Lamps", "€19.05", "My orders", /\d [A-Z][a-z]{2,3} \d{4}, \d\d:\d\d – /],
    ["zh-CN", null, "灯", "€19.05", "我的订单", /\d年\d+月\d+日 \d\d:\d\d – /],
    ["en-GB", "zh", "灯", "€19.05", "我的订单", /年/],
    ["zh-CN", "en", "Lamps", "€19.05", "My orders", /[AP]M – /],
  ]) {
    const context = await browser.newContext({ locale, timezoneId: "Asia/Shanghai" });
    await context.addInitScript((language) => language && localStorage.setItem("stampede.language", language), chosen);
    const page = await context.newPage();
    await page.route("**/*.js", (route) => route.abort());
    await page.goto(baseURL + path);
    await expect(page.locator("html")).toHaveAttribute("lang", (chosen ?? locale).startsWith("zh") ? "zh-CN" : "en");
    await expect(page.getByTestId("title")).toHaveText(title);
    await expect(page.locator("#price")).toHaveText(price);
    await expect(page.locator("#when")).toHaveText(month);
    await expect(page.locator("#picture img")).toHaveAttribute("src", "/demo/film.svg");
    await expect(page.getByTestId("nav-orders")).toHaveText(orders);
    await expect(page.getByTestId("title")).toBeVisible();
    await context.close();
  }
});

test("a visitor without scripts reads the sale", async ({ browser, baseURL }) => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(baseURL + (await publishShown(baseURL)));
  await expect(page.getByTestId("title")).toHaveText("Lamps");
  await expect(page.locator("#price")).toHaveText("19.05 EUR");
  await expect(page.locator("#when")).toContainText("UTC");
  await context.close();
});

test("a page needs no stylesheet, and its first view moves nothing when the modules have loaded", async ({ page, baseURL }) => {
  const path = await publishShown(baseURL);
  const styles = [];
  page.on("request", (request) => request.resourceType() === "stylesheet" && styles.push(request.url()));
  await page.addInitScript(() => {
    globalThis.shifted = 0;
    new PerformanceObserver((list) => list.getEntries().forEach(({ value }) => (globalThis.shifted += value)))
      .observe({ type: "layout-shift", buffered: true });
  });
  await page.goto(path);
  await expect(page.getByTestId("buy").first()).not.toBeEmpty();
  expect(styles).toEqual([]);
  // What Lighthouse calls good is below 0.1.
  await expect.poll(() => page.evaluate(() => globalThis.shifted)).toBeLessThan(0.05);
});
