// The start: by the server's clock, whatever the browser's says (A2).

import assert from "node:assert/strict";
import { test } from "node:test";
import { publish, serverOffset, unique } from "./support/app.js";
import { part, signInOn, untilButton, untilSays, withPage } from "./support/browser.js";

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

for (const [words, clockOff] of [["right", 0], ["an hour fast", HOUR], ["an hour slow", -HOUR]]) {
  test(`the button is grey before the start and lights up at it while the browser's clock is ${words}`, async () => {
    const { id, startsAt } = await publish({ startsIn: 5_000 });
    const offset = await serverOffset(id);
    await withPage(
      `/sale?activity=${id}`,
      async (page) => {
        await page.evaluate(noteWhenLit);
        await signInOn(page, unique("ada"));
        await untilSays(page, "buy", "Not yet");
        await untilSays(page, "clock", /^00:0[0-5]$/);
        assert.equal(await part(page, "buy").isDisabled(), true);
        await untilButton(page, "enabled");
        const late = (await page.evaluate(() => globalThis.litAt)) + offset - startsAt;
        assert.ok(late >= -50 && late < 700, `it lit up ${late} ms after the start`);
        await part(page, "buy").click();
        await page.waitForURL(/\/order\?/);
      },
      { clockOff },
    );
  });
}

test("a crowd's pages spread their look at the gate, and none asks for it long before the start", async () => {
  const { id, startsAt } = await publish({ startsIn: 8_000 });
  const offset = await serverOffset(id);
  await withPage(`/sale?activity=${id}`, async (page) => {
    const looks = [];
    page.on("request", (request) => request.url().endsWith("/gate.json") && looks.push(Date.now() + offset - startsAt));
    await untilButton(page, "enabled");
    await page.waitForResponse(async (response) =>
      response.url().endsWith("/gate.json") && "start_key" in (await response.json()));
    assert.ok(looks.length <= 6, `${looks.length} looks: ${looks}`);
    assert.ok(looks.some((at) => at >= 0 && at < 1_500), `no look right after the start: ${looks}`);
  });
});
