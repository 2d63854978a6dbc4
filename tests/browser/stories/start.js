// The start of a sale by the server's clock, independent of the browser's clock (A2).

import { call, changeSale, publish, serverClockOffset, unique, untilPhase } from "../support/app.js";
import { changeAnswers, recordText, signInOnPage, untilCanBuy, untilText } from "../support/page.js";
import { retryIfLate } from "../support/retry-if-late.js";
import { expect, test } from "../support/test.js";

const MINUTE = 60_000;

// Runs in the page: records when the button is enabled, by a clock that the shifted `Date` does not affect.
const recordWhenEnabled = () => {
  const record = () => {
    if (!globalThis.enabledAt && document.querySelector('[data-action="buy"]:enabled')) {
      globalThis.enabledAt = performance.timeOrigin + performance.now();
    }
  };
  new MutationObserver(record).observe(document.body, { subtree: true, attributes: true, childList: true });
  record();
};

const isGate = (message) => message.url().endsWith("/gate.json");

/** Returns what is wrong with the time at which the button was enabled, or null. */
async function startProblem(page, startsAt) {
  const late = (await page.evaluate(() => globalThis.enabledAt)) - startsAt;
  return late >= -100 && late < 300 ? null : `it was enabled ${late} ms after the start`;
}

// Runs in the page before its own scripts. Simulates a computer whose clock is wrong.
function shiftClock(offset) {
  const RealDate = Date;
  globalThis.Date = class extends RealDate {
    constructor(...values) {
      super(...(values.length ? values : [RealDate.now() + offset]));
    }
    static now() {
      return RealDate.now() + offset;
    }
  };
}

for (const [description, clockOff] of [["right", 0], ["ten minutes fast", 10 * MINUTE], ["ten minutes slow", -10 * MINUTE]]) {
  const title = `the button is enabled at the start and not before while the browser's clock is ${description}`;
  test(title, ({ newPage }) => retryIfLate(async () => {
    const { id, startsAt } = await publish({ startsIn: 12_000 });
    const offset = await serverClockOffset(id);
    const page = await newPage();
    const { jitter_ms: jitter } = await call("GET", `/api/activities/${id}/gate.json`);
    const gateRequests = [];
    page.on("request", (request) => isGate(request) && gateRequests.push(Date.now() + offset - startsAt));
    await page.addInitScript(shiftClock, clockOff);
    await page.goto(`/sale?activity=${id}`);
    await page.evaluate(recordWhenEnabled);
    const button = await recordText(page.getByTestId("buy"));
    const clock = await recordText(page.getByTestId("clock"));
    await signInOnPage(page, unique("ada"));
    await untilCanBuy(page);
    const problem = await startProblem(page, startsAt - offset);
    await page.getByTestId("buy").click();
    await page.waitForURL(/\/order\?/);
    if (!button.hasShown("Opens in")) return "the page loaded after the start";
    if (!clock.hasShown(/^00:(0\d|1[0-2])$/)) return "no countdown was seen";
    const first = gateRequests.find((at) => at >= -100);
    return problem ?? (first < jitter + 300 ? null : `the first request left ${first} ms after the start`);
  }));
}

test("a clock that a cached response set is corrected by the next response", ({ newPage }) => retryIfLate(async () => {
  const { id, startsAt } = await publish({ startsIn: 12_000 });
  const offset = await serverClockOffset(id);
  const page = await newPage();
  const stale = (time) => new Date(Date.parse(time) - 30_000).toISOString();
  await changeAnswers(page, /\/api\/activities\/[^/]+$/, (sale) => ({ ...sale, server_time: stale(sale.server_time) }));
  await page.goto(`/sale?activity=${id}`);
  await page.evaluate(recordWhenEnabled);
  await untilCanBuy(page);
  return startProblem(page, startsAt - offset);
}));

test("a page rarely polls the gate before the start, and polls it at the start", ({ newPage }) => retryIfLate(async () => {
  const { id, startsAt } = await publish({ startsIn: 12_000 });
  const offset = await serverClockOffset(id);
  const page = await newPage();
  const gateRequests = [];
  page.on("request", (request) => isGate(request) && gateRequests.push(Date.now() + offset - startsAt));
  await page.goto(`/sale?activity=${id}`);
  await page.waitForResponse(async (response) => isGate(response) && "start_key" in (await response.json()));
  const early = gateRequests.filter((at) => at < -100);
  expect(early.length, `requests at ${gateRequests} ms from the start`).toBeLessThanOrEqual(2);
  const isOnTime = gateRequests.some((at) => at >= -100 && at < 1_000);
  return isOnTime ? null : `no request right after the start: ${gateRequests}`;
}));

test("a page delays its first request after the start by the gate's jitter", ({ newPage }) => retryIfLate(async () => {
  const { id, startsAt } = await publish({ startsIn: 15_000 });
  const offset = await serverClockOffset(id);
  const page = await newPage();
  // `Math.random()` near 1 makes this page use nearly the whole jitter.
  await page.addInitScript(() => (Math.random = () => 0.999));
  await changeAnswers(page, /gate\.json$/, (gate) => ({ ...gate, jitter_ms: 3_000 }));
  const gateRequests = [];
  page.on("request", (request) => isGate(request) && gateRequests.push(Date.now() + offset - startsAt));
  await page.goto(`/sale?activity=${id}`);
  await page.waitForResponse(async (response) => isGate(response) && "start_key" in (await response.json()));
  const isDelayed = gateRequests.at(-1) > 2_800 && gateRequests.at(-1) < 4_500;
  return isDelayed ? null : `requests at ${gateRequests} ms from the start`;
}));

test("a page notices a moved start long before its next poll of the gate", async ({ page }) => {
  const { id } = await publish({ startsIn: 900_000 });
  await page.goto(`/sale?activity=${id}`);
  await page.clock.install();
  await page.reload();
  await untilText(page, "buy", "Sign in to take part");
  await changeSale(id, { starts_at: new Date(Date.now() - 1_000).toISOString() });
  await untilPhase(id, { phases: ["open"] });
  // The page loads its activity within 90 s; its next poll of the gate would be after more than five minutes.
  // An instance may answer with the activity of a second ago: the page then loads it again within 90 s.
  await expect(async () => {
    await page.clock.fastForward(95_000);
    await expect(page.locator('[data-action="buy"]:enabled')).toBeVisible({ timeout: 5_000 });
  }).toPass({ timeout: 15_000 });
});
