// A browser, and pages that fail a test when they break their own rules.

import assert from "node:assert/strict";
import { after, before } from "node:test";
import { chromium } from "playwright-core";
import { operatorToken, url } from "./app.js";

const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

let browser;

before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.STAMPEDE_CHROMIUM ?? "/usr/bin/chromium",
    args: ARGUMENTS,
    // Buyers have it.
    ignoreDefaultArgs: ["--disable-back-forward-cache"],
  });
});

after(() => browser?.close());

/**
 * Opens a page of the app in a profile of its own and gives it to `use`. Afterwards fails on every
 * error of a script and on every breach of the content security policy.
 */
export async function withPage(path, use, { clockOff = 0, ...options } = {}) {
  const context = await browser.newContext({ baseURL: url, locale: "en-GB", ...options });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(`error: ${error.stack ?? error}`));
  page.on("console", (message) => {
    // A refusal that the page handles shows there too: that is no fault.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) {
      faults.push(`console: ${message.text()}`);
    }
  });
  if (clockOff) await page.addInitScript(shiftClock, clockOff);
  try {
    await page.goto(path);
    await use(page);
  } catch (error) {
    error.message += `\nThe page ${page.url()} showed:\n${await page.innerText("body").catch(() => "nothing")}`;
    error.message += `\n${faults.join("\n")}`;
    throw error;
  } finally {
    // A request that a route of the test still has in hand fails when its page closes.
    await Promise.all([page, context].map((routed) => routed.unrouteAll({ behavior: "ignoreErrors" })));
    await context.close();
  }
  assert.deepEqual(faults, [], "the page ran without errors");
}

// Runs in the page before its own scripts: a computer whose clock is wrong.
function shiftClock(off) {
  const Right = Date;
  globalThis.Date = class extends Right {
    constructor(...values) {
      super(...(values.length ? values : [Right.now() + off]));
    }
    static now() {
      return Right.now() + off;
    }
  };
}

/** The element with a test id. */
export const part = (page, id) => page.getByTestId(id);

/** Signs a buyer in by the dialog. */
export async function signInOn(page, user) {
  await part(page, "sign-in").click();
  await part(page, "sign-in-user").fill(user);
  await part(page, "sign-in-send").click();
  await part(page, "user").filter({ hasText: user }).waitFor();
}

/** Opens the operator's page with its token. */
export async function enterAsOperator(page) {
  await part(page, "admin-token").fill(operatorToken);
  await part(page, "admin-enter").click();
  await part(page, "admin-sales").waitFor();
}

/** Fills the address in and goes to the payment's page. */
export async function goToPayment(page) {
  const address = { name: "Mia Example", street: "1 Long Road", postal_code: "12345", city: "Town", country: "Utopia" };
  for (const [name, value] of Object.entries(address)) await page.locator(`#${name}`).fill(value);
  await part(page, "pay").click();
  await page.waitForURL(/\/sandbox\/pay\//);
}

/** Waits until an element's text matches. */
export const untilSays = (page, id, text) => part(page, id).filter({ hasText: text }).waitFor();

/** Waits until the button can or cannot be pressed. */
export const untilButton = (page, state) =>
  page.locator(`[data-testid="buy"]:${state}`).waitFor();
