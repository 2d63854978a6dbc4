// The main story of a buyer in WebKitGTK, by its own WebDriver: Playwright drives only a WebKit that it builds itself.
// WebDriver cannot run a script before those of the page: errors count from the moment when a page is seen.

import { ADDRESS, publish, stock, unique } from "../support/app.js";
import { retryIfLate } from "../support/retry-if-late.js";
import { expect, test } from "../support/test.js";
import { startWebKit } from "../support/webkit.js";

test.skip(process.platform !== "linux", "WebKitGTK is only packaged for Linux");

test("a buyer in WebKit waits for the start, buys, pays, and sees the order paid", { tag: "@webkit" }, ({ words }) => retryIfLate(async () => {
  const webkit = await startWebKit();
  let sale;
  try {
    sale = await publish({ startsIn: 15_000, total: 3 });
    await webkit.open("/");
    await webkit.reloadUntilShown(`a[href$="activity=${sale.id}"]`);
    await webkit.click(`a[href$="activity=${sale.id}"]`);
    const [label, isEnabled] = await webkit.read("buy");
    if (label === words["sign_in.buy"]) return "the page loaded after the start";
    expect([label, isEnabled]).toEqual([words["sign_in.take_part"], true]);
    const [phase] = await webkit.read("#countdown-label");
    if (phase !== words["phase.scheduled"]) return `the sale started before its countdown was read: ${phase}`;
    const [clock] = await webkit.read("clock");
    const isCounting = await webkit.untilText("clock", (text) => text < clock).then(() => true, () => false);
    if (!isCounting) return "no countdown was seen";
    await webkit.click("sign-in");
    await webkit.fill("sign-in-user", unique("wei"));
    await webkit.click("sign-in-send");
    await webkit.untilText('[data-action="buy"]', (text) => text.includes("19.99"));
    await webkit.click("buy");
    await webkit.untilText("headline", words["order.yours_for"].split("{")[0]);
    const { country, ...texts } = ADDRESS;
    for (const [id, value] of Object.entries(texts)) await webkit.fill(`#${id}`, value);
    await webkit.click(`#country option[value="${country}"]`);
    await webkit.click("pay");
    await webkit.click("sandbox-pay");
    await webkit.untilText("headline", words["order.paid"]);
    await webkit.click("nav-orders");
    await webkit.untilText("order-link", words["status.paid"]);
    expect(await webkit.errors(), "errors of scripts, and violations of the content security policy").toEqual([]);
    expect(await webkit.runsInlineScript()).toBe(false);
    expect(await webkit.errors()).toHaveLength(1);
  } catch (error) {
    console.log(await webkit.describe());
    throw error;
  } finally {
    await webkit.stop();
  }
  expect(await stock(sale.id)).toMatchObject({ left: 2, held: 0, sold: 1 });
}));
