// The charts of the operator's page (G2).

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { ADDRESS, call, eventually, orderOf, publish, reserve, send, signIn, untilPhase, url } from "../support/app.js";
import { deskOf, openDesk, recordText } from "../support/page.js";
import { expect, test } from "../support/test.js";

/** Opens the page of a sale. */
async function openLive(page, id) {
  await openDesk(page, deskOf(id));
  await expect(page.getByTestId("stock-left")).not.toHaveText("–");
}

test("a sale's page has the figures of a reservation, its payment and a refusal", async ({ page }) => {
  const { id } = await publish({ total: 10 });
  await openLive(page, id);
  await expect(page.getByTestId("stock-left")).toHaveText("10");
  await expect(page.getByTestId("reservations-per-second")).toHaveText("0");
  const names = ["reservations-per-second", "written-per-second", "paid-per-second"];
  const rates = await Promise.all(names.map((name) => recordText(page.getByTestId(name))));

  const { buyer, order } = await orderOf(id);
  await expect(page.getByTestId("stock-held")).toHaveText("1");
  const body = { address: ADDRESS };
  const { checkout_url: link } = await call("POST", `/api/orders/${order}/checkout`, { token: buyer.token, body });
  await call("POST", new URL(link, url()).pathname, { body: { outcome: "paid" } });
  await expect(page.getByTestId("stock-sold")).toHaveText("1");
  await expect(page.getByTestId("stock-held")).toHaveText("0");
  // One order in the second or so between two answers.
  for (const rate of rates) await rate.untilShown(/^(0\.[1-9]|1(\.\d)?)$/);

  const { ticket } = await call("POST", `/api/activities/${id}/ticket`, { token: buyer.token, body: {} });
  const { start_key } = await untilPhase(id, { phases: ["open"] });
  const again = { body: { sku: "item", quantity: 1, ticket, start_key } };
  expect((await send("POST", `/api/activities/${id}/orders`, again)).document.code).toBe("limit_reached");
  await expect(page.getByTestId("refused-limit_reached")).toHaveText("1");
});

test("uPlot is loaded with the first chart, and draws it in a browser whose language Intl does not know", async ({ newPage }) => {
  const { id } = await publish({ total: 10 });
  const page = await newPage(null, { locale: "en-US@posix" });
  const scripts = [];
  page.on("request", (request) => request.url().includes("/uplot.") && request.resourceType() === "script" && scripts.push(request.url()));
  await openDesk(page);
  expect(scripts).toEqual([]);
  await page.goto(deskOf(id));
  await expect(page.getByTestId("stock-left")).toHaveText("10");
  await untilDrawn(page, "stock", "--line-1", true);
  expect(scripts.length).toBe(1);
  expect(await page.evaluate(() => navigator.language)).toBe("en-US@posix");
});

test("figures are shown without the charts while uPlot does not load", async ({ page }) => {
  const { id } = await publish({ total: 10 });
  await page.route(/\/uplot\.[^/]*js$/, (route) => route.abort());
  await openDesk(page, deskOf(id));
  await expect(page.getByTestId("charts")).toHaveText(/did not load/);
  await expect(page.getByTestId("left")).toHaveText("10");
  await page.unrouteAll();
  await page.reload();
  await expect(page.getByTestId("stock-left")).toHaveText("10");
});

/** The number of pixels that a chart's canvas has in the colour of a variable of the style sheet. */
const countPixels = (page, chart, variable) =>
  page.getByTestId(`chart-${chart}`).locator("canvas").evaluate((canvas, variable) => {
    const text = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
    const color = [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) if (color.every((part, index) => data[at + index] === part)) count += 1;
    return count;
  }, variable);

const untilDrawn = (page, chart, variable, isDrawn) =>
  eventually(`${chart} ${isDrawn ? "with" : "without"} ${variable}`, async () => {
    const value = await countPixels(page, chart, variable);
    return { done: isDrawn ? value > 20 : value === 0, value };
  });

test("the lines have the colours of the scheme, and a button of the legend hides one", async ({ newPage }) => {
  const { id } = await publish({ total: 10 });
  const page = await newPage("/admin", { colorScheme: "light" });
  await openLive(page, id);
  await untilDrawn(page, "stock", "--line-1", true);
  await page.emulateMedia({ colorScheme: "dark" });
  await untilDrawn(page, "stock", "--line-1", true);

  const button = page.getByTestId("chart-stock").getByRole("button", { name: "Left" });
  await expect(button).toHaveAttribute("aria-pressed", "true");
  await button.focus();
  await page.keyboard.press("Enter");
  await expect(button).toHaveAttribute("aria-pressed", "false");
  await untilDrawn(page, "stock", "--line-1", false);
  await reserve(id, await signIn());
  await expect(page.getByTestId("stock-left")).toHaveText("9");
  await expect(button).toBeFocused();
  expect(await countPixels(page, "stock", "--line-1")).toBe(0);
  await page.keyboard.press("Enter");
  await untilDrawn(page, "stock", "--line-1", true);
});

test("a chart is as wide as its card, and the pointer shows the values of a moment", { tag: "@phone" }, async ({ page }) => {
  const { id } = await publish({ total: 10 });
  await openLive(page, id);
  const widths = () => page.getByTestId("chart-stock").evaluate((card) =>
    ["canvas", ".plot"].map((name) => Math.round(card.querySelector(name).getBoundingClientRect().width)));
  for (const width of [1_200, 420, 700]) {
    await page.setViewportSize({ width, height: 800 });
    await eventually(`a chart for ${width} pixels`, async () => {
      const [canvas, plot] = await widths();
      return { done: canvas === plot && plot > width / 3 && plot < width, value: [canvas, plot] };
    });
  }
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "no scroll bar").toBe(true);
  await reserve(id, await signIn());
  await expect(page.getByTestId("stock-left")).toHaveText("9");
  const plot = page.getByTestId("chart-stock").locator(".u-over");
  const { width } = await plot.boundingBox();
  // The first sample, from before the reservation, is the nearest one to the left edge.
  await plot.hover({ position: { x: 2, y: 20 } });
  await expect(page.getByTestId("stock-left")).toHaveText("10");
  await expect(page.getByTestId("chart-stock").locator("figcaption")).toContainText(/\d\d:\d\d/);
  await plot.hover({ position: { x: width - 2, y: 20 } });
  await expect(page.getByTestId("stock-left")).toHaveText("9");
});

test("the history begins with what sweeps recorded, keeps an hour, and knows no rate across a pause or a rebuild", async ({ page }) => {
  const { id } = await publish();
  await openLive(page, id);
  const found = await page.evaluate(async () => {
    const { name } = performance.getEntriesByType("resource").find((entry) => /\/live\/history\.[^/]*js$/.test(entry.name));
    const { createHistory } = await import(name);
    const stats = (second, enqueued, refusals = {}) => ({
      server_time: new Date(1e12 + second * 1_000).toISOString(), enqueued, written: 0, queue: 0, refusals,
      orders: { paid: 1, refunding: 1, refunded: 1, expired: 1 }, skus: [{ sku: "a", total: 5, left: 5, held: 0, sold: 0 }],
    });
    const row = (second, sku, left) => ({ time: new Date(1e12 - 1e6 + second * 1_000).toISOString(), sku, left, held: 0, sold: 9 - left });
    const recorded = createHistory([row(0, "a", 9), row(0, "b", 9), row(5, "a", 7)]).add(stats(0, 0)).map(({ left, sold }) => [left, sold]);
    const history = createHistory();
    const last = (...values) => history.add(stats(...values)).slice(-1)[0];
    const results = {
      recorded,
      first: last(0, 100).reserved,
      second: last(2, 110, { sold_out: 6 }),
      afterPause: last(60, 1_000).reserved,
      inPause: history.add(stats(61, 1_000)).map(({ left }) => left),
      afterRebuild: last(62, 0).reserved,
      then: last(63, 4).reserved,
    };
    let samples;
    for (let second = 64; second < 6_000; second += 1) samples = history.add(stats(second, second));
    return {
      ...results, count: samples.length, span: samples[samples.length - 1].at - samples[0].at,
      clockSetBack: history.add(stats(0, 0)).length,
    };
  });
  expect(found).toMatchObject({
    recorded: [[18, 0], [16, 2], [5, 0]],
    first: null, second: { reserved: 5, written: 0, paid: 0, refused: { sold_out: 3 }, left: 5 }, afterPause: null,
    inPause: [5, 5, null, 5, 5], afterRebuild: null, then: 4, count: 3_601, span: 3_600, clockSetBack: 1,
  });
});

test("the vendored files of uPlot equal those of its package", () => {
  const folder = dirname(createRequire(import.meta.url).resolve("uplot"));
  for (const [name, packaged] of [["uplot.js", "uPlot.iife.min.js"], ["uplot.css", "uPlot.min.css"], ["LICENSE.txt", "../LICENSE"]]) {
    const vendored = readFileSync(new URL(`../../../static/assets/vendor/uplot/${name}`, import.meta.url), "utf8");
    expect(vendored).toBe(readFileSync(join(folder, packaged), "utf8"));
  }
});
