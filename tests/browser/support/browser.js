// The browser, and pages that fail a test on script errors and violations of the content security policy.

import assert from "node:assert/strict";
import { after, before } from "node:test";
import { chromium } from "playwright-core";
import { eventually, operatorToken, unique, url } from "./app.js";

const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

let browser;

before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.STAMPEDE_CHROMIUM ?? "/usr/bin/chromium",
    args: ARGUMENTS,
    timeout: 180_000,
    // The back/forward cache is on, as in the browsers of buyers.
    ignoreDefaultArgs: ["--disable-back-forward-cache"],
  });
});

after(() => browser?.close());

/**
 * Opens a page of the app in a new profile and passes it to `test`. Resolves to the result of `test`. Fails if the page
 * had a script error or violated the content security policy. `clockOff` shifts the page's `Date`, in milliseconds.
 */
export async function withPage(path, test, { clockOff = 0, ...options } = {}) {
  const context = await browser.newContext({ baseURL: url, locale: "en-GB", ...options });
  // Less than a minute, after which a page loads its activity anyway and could hide a missing update.
  context.setDefaultTimeout(40_000);
  const page = await context.newPage();
  const pageErrors = [];
  page.on("pageerror", (error) => pageErrors.push(`error: ${error.stack ?? error}`));
  page.on("console", (message) => {
    // Chromium also logs error responses that the page handles: ignore them.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) {
      pageErrors.push(`console: ${message.text()}`);
    }
  });
  if (clockOff) await page.addInitScript(shiftClock, clockOff);
  let result;
  try {
    await page.goto(path);
    result = await test(page);
  } catch (error) {
    error.message += `\nThe page ${page.url()} showed:\n${await page.innerText("body").catch(() => "nothing")}`;
    error.message += `\n${pageErrors.join("\n")}`;
    throw error;
  } finally {
    // Closing the page fails requests that are still intercepted by a route of the test: ignore these errors.
    await Promise.all([page, context].map((routed) => routed.unrouteAll({ behavior: "ignoreErrors" })));
    await context.close();
  }
  assert.deepEqual(pageErrors, [], "the page ran without errors");
  return result;
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

/** The element with a test id. */
export const byTestId = (page, id) => page.getByTestId(id);

/** Signs a buyer in through the dialog. */
export async function signInOnPage(page, user) {
  await byTestId(page, "sign-in").click();
  await byTestId(page, "sign-in-user").fill(user);
  await byTestId(page, "sign-in-send").click();
  await byTestId(page, "user").filter({ hasText: user }).waitFor();
}

/** Enters the operator's token and waits for the list of activities. */
export async function signInAsOperator(page) {
  await byTestId(page, "admin-token").fill(operatorToken);
  await byTestId(page, "admin-enter").click();
  await byTestId(page, "admin-sales").waitFor();
}

/** Fills in the address and continues to the payment page of the sandbox. */
export async function goToPayment(page) {
  const address = { name: "Mia Example", street: "1 Long Road", postal_code: "12345", city: "Town", country: "Utopia" };
  for (const [name, value] of Object.entries(address)) await page.locator(`#${name}`).fill(value);
  await byTestId(page, "pay").click();
  await page.waitForURL(/\/sandbox\/pay\//);
}

/** Waits until the text of an element contains or matches `text`. */
export const untilText = (page, id, text) => byTestId(page, id).filter({ hasText: text }).waitFor();

/**
 * Records every text that an element shows from now on while it is visible, however briefly, and keeps the record after
 * navigation. `untilShown(expected)` waits until it has shown a text; `hasShown(expected)` returns whether it has.
 */
export async function recordText(element) {
  const texts = [];
  const name = unique("hear");
  await element.page().exposeFunction(name, (text) => texts.push(text));
  await element.evaluate((node, name) => {
    let last = "";
    const record = () => {
      const text = node.checkVisibility() ? node.textContent.trim() : "";
      if (text && text !== last) globalThis[name](text);
      last = text;
    };
    // Observes the whole document, because an ancestor can show or hide the element.
    const everything = { subtree: true, childList: true, characterData: true, attributes: true };
    new MutationObserver(record).observe(document, everything);
    record();
  }, name);
  const matches = (text, expected) => (expected instanceof RegExp ? expected.test(text) : text.includes(expected));
  const hasShown = (expected) => texts.some((text) => matches(text, expected));
  const untilShown = (expected) =>
    eventually(`"${expected}" being shown`, () => ({ done: hasShown(expected), value: texts }));
  return { hasShown, untilShown };
}

/** Waits until the buy button is `enabled` or `disabled`. */
export const untilBuyButton = (page, state) =>
  page.locator(`[data-testid="buy"]:${state}`).waitFor();
