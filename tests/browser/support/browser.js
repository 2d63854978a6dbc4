// A browser, and pages that fail a test when they break their own rules.

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
    // Buyers have it.
    ignoreDefaultArgs: ["--disable-back-forward-cache"],
  });
});

after(() => browser?.close());

/**
 * Opens a page of the app in a profile of its own and gives it to `use`; resolves to what that resolves to.
 * Afterwards fails on every error of a script and on every breach of the content security policy.
 */
export async function withPage(path, use, { clockOff = 0, ...options } = {}) {
  const context = await browser.newContext({ baseURL: url, locale: "en-GB", ...options });
  // Less than the minute after which a page looks at its sale whatever else it does.
  context.setDefaultTimeout(40_000);
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
  let result;
  try {
    await page.goto(path);
    result = await use(page);
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
  return result;
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

/**
 * Listens to what an element says from now on where it can be seen, however briefly, and remembers it when the page
 * is left: `says(words)` waits until it has said so, `hasSaid(words)` answers whether it has.
 */
export async function listenTo(element) {
  const heard = [];
  const name = unique("hear");
  await element.page().exposeFunction(name, (text) => heard.push(text));
  await element.evaluate((node, name) => {
    let last = "";
    const listen = () => {
      const text = node.checkVisibility() ? node.textContent.trim() : "";
      if (text && text !== last) globalThis[name](text);
      last = text;
    };
    // All of the page: what an element stands in shows and hides it.
    const all = { subtree: true, childList: true, characterData: true, attributes: true };
    new MutationObserver(listen).observe(document, all);
    listen();
  }, name);
  const hasSaid = (words) => heard.some((text) => (words instanceof RegExp ? words.test(text) : text.includes(words)));
  const says = (words) => eventually(`"${words}" being said`, () => ({ done: hasSaid(words), value: heard }));
  return { hasSaid, says };
}

/** Waits until the button can or cannot be pressed. */
export const untilButton = (page, state) =>
  page.locator(`[data-testid="buy"]:${state}`).waitFor();
