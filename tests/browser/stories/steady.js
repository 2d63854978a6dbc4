// A tap buys what the finger is on: nothing moves on the sale page, and a press that began too early buys nothing.

import { devices } from "@playwright/test";
import { callAdmin, publish, unique } from "../support/app.js";
import { changeAnswers, countRequests, signInOnPage, untilCanBuy, untilText } from "../support/page.js";
import { retryIfLate } from "../support/retry-if-late.js";
import { expect, test } from "../support/test.js";

const ORDERS = /\/api\/activities\/[^/]+\/orders$/;

const SKUS = ["body", "lens", "strap"].map((sku, index) => ({
  sku, name: `${sku}, which is made to order and has a name that takes more than one line`, price: 189_900 - index,
  currency: "EUR", total: 10,
}));

// Runs in the page: records the boxes at every frame, until `stopRecording` returns those that differ.
const recordBoxes = () => {
  const seen = new Set();
  let isOver = false;
  const record = () => {
    const boxes = [...document.querySelectorAll(".action-bar, #buy, .sku, .moment, #title, #price, #when")].map((node) => {
      const { x, y, width, height } = node.getBoundingClientRect();
      // What replaces the time it starts has another width.
      return [x, y, node.id === "when" ? 0 : width, height].map(Math.round).join();
    });
    seen.add(boxes.join(" "));
    if (!isOver) requestAnimationFrame(record);
  };
  record();
  globalThis.stopRecording = () => new Promise((resolve) => requestAnimationFrame(() => {
    isOver = true;
    resolve([...seen]);
  }));
};

for (const locale of ["en-GB", "zh-CN"]) {
  for (const [device, options] of [["phone", devices["Pixel 7"]], ["desktop", { viewport: { width: 1280, height: 720 } }]]) {
    test(`no buy button moves while a sale starts, pauses and goes on (${locale}, ${device})`, ({ newPage }) => retryIfLate(async () => {
      const sale = await publish({
        title: "A sale with a title that takes a line or two", description: "A description. ".repeat(20), skus: SKUS,
        startsIn: 20_000, duration: 90_000_000, perUser: 3, human_check: "captcha", line: { mode: "waitlist" },
      });
      const page = await newPage(null, { ...options, locale });
      // The puzzle is solved without looking at it.
      await page.route(/\/ticket$/, (route) => route.request().postDataJSON()?.captcha
        ? route.fulfill({ status: 201, json: { ticket: "1.x", order_no: `${sale.id}.x`, expires_at: new Date(Date.now() + 600_000) } })
        : route.continue());
      await page.goto(`/sale?activity=${sale.id}`);
      await expect(page.getByTestId("sku")).toHaveCount(3);
      await expect(page.getByTestId("buy")).toBeEnabled();
      if (await page.locator('[data-action="buy"]').count()) return "the page loaded after the start";
      await page.evaluate(() => (document.documentElement.style.fontSize = "200%"));
      /** Whether the boxes stayed where they were during `act`. */
      const staysDuring = async (what, act) => {
        await page.evaluate(recordBoxes);
        await act();
        expect(await page.evaluate(() => globalThis.stopRecording()), what).toHaveLength(1);
      };

      await staysDuring("sign-in and human check", async () => {
        await signInOnPage(page, unique("ada"));
        await page.getByTestId("puzzle-other").click();
        await page.locator('#puzzle-answer[inputmode="numeric"]').fill("7");
        await page.getByTestId("puzzle-send").click();
        await expect(page.locator("#step-ticket")).toHaveClass("is-done");
        await expect(page.getByTestId("puzzle")).toHaveCount(0);
      });
      await staysDuring("announcement", async () => {
        await changeAnswers(page, /gate\.json$/, (gate) => ({ ...gate, announcement: { en: "Ten more minutes. ".repeat(15) } }));
        await page.evaluate(() => dispatchEvent(new Event("online")));
        await untilText(page, "announcement", "Ten more minutes.");
      });
      // As far down as possible: what became shorter below the list would move it, too.
      await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
      if (await page.locator('[data-action="buy"]').count()) return "the check was solved after the start";
      await staysDuring("start", () => untilCanBuy(page));
      await staysDuring("pause", async () => {
        await callAdmin("POST", `/activities/${sale.id}/pause`, {});
        await expect(page.getByTestId("buy")).toBeDisabled();
      });
      await staysDuring("resumption", async () => {
        await callAdmin("POST", `/activities/${sale.id}/resume`, {});
        await untilCanBuy(page);
      });
      await page.route(ORDERS, (route) => route.fulfill({ status: 409, json: { status: 409, code: "sold_out" } }));
      await staysDuring("notice and refusal", async () => {
        await page.getByTestId("buy").dispatchEvent("click");
        await expect(page.getByTestId("notice")).toHaveAttribute("data-tone", "calm");
        await expect(page.locator('[data-action="left"]')).toBeEnabled();
      });
      await staysDuring("waitlist", async () => {
        await changeAnswers(page, /\/api\/activities\/sale-[^/]+$/, (shown) => ({ ...shown, skus: shown.skus.map((sku) => ({ ...sku, left: 0, waiting: 12 })) }));
        await page.evaluate(() => dispatchEvent(new Event("online")));
        await expect(page.locator('[data-action="join"]')).toBeEnabled();
        await expect(page.getByTestId("outcome")).toHaveCSS("visibility", "visible");
      });
      await staysDuring("selling out", async () => {
        await page.unroute(/gate\.json$/);
        await changeAnswers(page, /gate\.json$/, (gate) => ({ ...gate, sold_out: SKUS.map(({ sku }) => sku) }));
        await expect(page.locator("#buy[data-action=next]")).toBeEnabled();
        await expect(page.getByTestId("outcome")).toHaveCSS("visibility", "visible");
      });
    }));
  }
}

test("a press that began before the start buys nothing, and a later one buys what is chosen", ({ newPage }) => retryIfLate(async () => {
  const { id } = await publish({ startsIn: 10_000, skus: SKUS });
  const page = await newPage(`/sale?activity=${id}`);
  const count = countRequests(page, ORDERS);
  await signInOnPage(page, unique("eve"));
  const buy = page.getByTestId("buy");
  const { x, y, width, height } = await buy.boundingBox();
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.down();
  if (await buy.isEnabled()) return "the press began after the start";
  await untilCanBuy(page);
  await page.mouse.up();
  await expect(buy).toBeEnabled();
  // The button is disabled in the event of a click that counts.
  expect(count.requests).toBe(0);
  await page.getByTestId("sku").nth(1).click();
  await expect(page.getByTestId("sku").nth(1).getByRole("radio")).toBeChecked();
  await buy.click();
  await page.waitForURL(/\/order\?/);
  await untilText(page, "order", SKUS[1].name);
}));
