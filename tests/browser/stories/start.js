// The start: by the server's clock, whatever the browser's says (A2).

import assert from "node:assert/strict";
import { test } from "node:test";
import { operate, publish, serverOffset, unique, untilPhase } from "../support/app.js";
import { listenTo, part, signInOn, untilButton, untilSays, withPage } from "../support/browser.js";
import { measured } from "../support/measured.js";

const HOUR = 3_600_000;

// The page's own account of when the button lit up, by a clock that the wrong `Date` does not touch.
const noteWhenLit = () => {
  const note = () => {
    if (!globalThis.litAt && document.querySelector('[data-testid="buy"]:enabled')) {
      globalThis.litAt = performance.timeOrigin + performance.now();
    }
  };
  new MutationObserver(note).observe(document.body, { subtree: true, attributes: true, childList: true });
  note();
};

/** What is wrong with the moment at which the button lit up, if anything. */
async function wrongStart(page, startsAt) {
  const late = (await page.evaluate(() => globalThis.litAt)) - startsAt;
  return late >= -100 && late < 1_000 ? null : `it lit up ${late} ms after the start`;
}

for (const [words, clockOff] of [["right", 0], ["an hour fast", HOUR], ["an hour slow", -HOUR]]) {
  test(`the button is grey before the start and lights up at it while the browser's clock is ${words}`, () => measured(async () => {
    const { id, startsAt } = await publish({ startsIn: 12_000 });
    const offset = await serverOffset(id);
    return withPage(
      `/sale?activity=${id}`,
      async (page) => {
        await page.evaluate(noteWhenLit);
        const [button, clock] = [await listenTo(part(page, "buy")), await listenTo(part(page, "clock"))];
        await signInOn(page, unique("ada"));
        await untilButton(page, "enabled");
        const wrong = await wrongStart(page, startsAt - offset);
        await part(page, "buy").click();
        await page.waitForURL(/\/order\?/);
        if (!button.hasSaid("Not yet")) return "the page came after the start";
        if (!clock.hasSaid(/^00:(0\d|1[0-2])$/)) return "no countdown was seen";
        return wrong;
      },
      { clockOff },
    );
  }));
}

test("a clock set by an answer that waited in a cache is put right by the next one", () => measured(async () => {
  const { id, startsAt } = await publish({ startsIn: 12_000 });
  const offset = await serverOffset(id);
  return withPage("/", async (page) => {
    await page.route(/\/api\/activities\/[^/]+$/, async (route) => {
      const response = await route.fetch();
      const sale = await response.json();
      const stale = new Date(Date.parse(sale.server_time) - 30_000).toISOString();
      await route.fulfill({ response, json: { ...sale, server_time: stale } });
    });
    await page.goto(`/sale?activity=${id}`);
    await page.evaluate(noteWhenLit);
    await untilButton(page, "enabled");
    return wrongStart(page, startsAt - offset);
  });
}));

const isGate = (message) => message.url().endsWith("/gate.json");

test("a page rarely asks the gate before the start, and does right at it", () => measured(async () => {
  const { id, startsAt } = await publish({ startsIn: 12_000 });
  const offset = await serverOffset(id);
  return withPage("/", async (page) => {
    const looks = [];
    page.on("request", (request) => isGate(request) && looks.push(Date.now() + offset - startsAt));
    await page.goto(`/sale?activity=${id}`);
    await page.waitForResponse(async (response) => isGate(response) && "start_key" in (await response.json()));
    assert.ok(looks.filter((at) => at < -100).length <= 2, `looks at ${looks} ms from the start`);
    return looks.some((at) => at >= -100 && at < 1_000) ? null : `no look right after the start: ${looks}`;
  });
}));

test("a page spreads its first request after the start as far as the gate says", () => measured(async () => {
  const { id, startsAt } = await publish({ startsIn: 15_000 });
  const offset = await serverOffset(id);
  return withPage("/", async (page) => {
    // The latest of all pages: chance gives it the end of the spread.
    await page.addInitScript(() => (Math.random = () => 0.999));
    await page.route(/gate\.json$/, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), jitter_ms: 3_000 } });
    });
    const looks = [];
    page.on("request", (request) => isGate(request) && looks.push(Date.now() + offset - startsAt));
    await page.goto(`/sale?activity=${id}`);
    await page.waitForResponse(async (response) => isGate(response) && "start_key" in (await response.json()));
    return looks.at(-1) > 2_800 && looks.at(-1) < 4_500 ? null : `looks at ${looks} ms from the start`;
  });
}));

test("a page sees that the start was moved, long before it would have asked the gate", async () => {
  const { id } = await publish({ startsIn: 900_000 });
  await withPage(`/sale?activity=${id}`, async (page) => {
    await page.clock.install();
    await page.reload();
    await untilSays(page, "buy", "Not yet");
    const { state, version, id: _, ...spec } = await operate("GET", `/activities/${id}`);
    await operate("PUT", `/activities/${id}`, { ...spec, starts_at: new Date(Date.now() - 1_000).toISOString() });
    await untilPhase(id, { among: ["open"] });
    // Every page looks at the sale after a minute and a half; this one would look at its gate after five.
    await page.clock.fastForward(95_000);
    await untilButton(page, "enabled");
  });
});
