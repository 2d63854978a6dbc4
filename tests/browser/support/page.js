// What the tests do and wait for on a page.

import { expect } from "@playwright/test";
import { ADDRESS, eventually, operatorToken, publish, unique } from "./app.js";

/** Signs a buyer in through the dialog. */
export async function signInOnPage(page, user) {
  await page.getByTestId("sign-in").click();
  await enterName(page, user);
  await expect(page.getByTestId("user")).toHaveText(user);
}

/** Signs a buyer in through the dialog that is open. */
export async function enterName(page, user) {
  await page.getByTestId("sign-in-user").fill(user);
  await page.getByTestId("sign-in-send").click();
}

/** Publishes a sale, opens its page, and signs a buyer in. Resolves to the sale's id and the buyer's name. */
export async function openSale(page, sale, user = unique("buyer")) {
  const { id } = await publish(sale);
  await page.goto(`/sale?activity=${id}`);
  await signInOnPage(page, user);
  return { id, user };
}

/** Waits until the button of a sale's page buys. */
export const untilCanBuy = (page) => expect(page.locator('[data-testid="buy"][data-action="buy"]')).toBeEnabled();

/** Buys on a sale's page as soon as that is possible. Ends on the order's page. */
export async function buyNow(page) {
  await untilCanBuy(page);
  await page.getByTestId("buy").click();
  await page.waitForURL(/\/order\?/);
}

/** Opens an operators' page, and enters. */
export async function openDesk(page, path = "/admin") {
  await page.goto(path);
  await signInAsOperator(page);
}

export const deskOf = (id) => `/admin/sale?id=${id}`;
export const editorOf = (id) => `/admin/edit?id=${id}`;

/** Saves what the editor shows, and waits for the page of the sale. */
export async function saveSale(page) {
  await page.getByTestId("f-save").click();
  await page.waitForURL(/\/admin\/sale\?/);
}

/** Opens what the editor has folded in its step `name`, or in its first item. */
export async function unfold(page, name) {
  if (name !== "item") await page.getByTestId(`step-${name}`).click();
  const folds = name === "item" ? page.locator(".sku-card details").first() : page.locator(`#step-${name} > details`);
  await folds.evaluate((fold) => (fold.open = true));
}

/** Enters the operator's token. */
export async function signInAsOperator(page) {
  await page.getByTestId("admin-token").fill(operatorToken());
  await page.getByTestId("admin-enter").click();
  await expect(page.getByTestId("leave")).toBeVisible();
}

/** Fills in the address on the order's page. */
export async function fillInAddress(page) {
  const { country, ...texts } = ADDRESS;
  for (const [name, value] of Object.entries(texts)) await page.locator(`#${name}`).fill(value);
  await page.locator("#country").selectOption(country);
}

/** Fills in the address and continues to the payment page of the sandbox. */
export async function goToPayment(page) {
  await fillInAddress(page);
  await page.getByTestId("pay").click();
  await page.waitForURL(/\/sandbox\/pay\//);
}

/** Pays on the order's page, and waits until the page says so. */
export async function payNow(page, paid = "Paid") {
  await goToPayment(page);
  await page.getByTestId("sandbox-pay").click();
  await page.waitForURL(/\/order\?/);
  await untilText(page, "headline", paid);
}

/** Holds the answers to some requests back. Resolves to a function that lets them, and later ones, pass. */
export async function holdAnswers(page, pattern, options) {
  let release;
  const released = new Promise((resolve) => (release = resolve));
  await page.route(pattern, async (route) => {
    const response = await route.fetch();
    await released;
    await route.fulfill({ response });
  }, options);
  return release;
}

/** Changes the documents that answer some requests; `headers` replace those of the answers. */
export const changeAnswers = (page, pattern, change, headers) => page.route(pattern, async (route) => {
  const response = await route.fetch();
  await route.fulfill({ response, headers, json: change(await response.json()) });
});

/** Clicks on what asks first, and answers yes. */
export async function clickAndConfirm(page, id) {
  await page.getByTestId(id).click();
  await page.getByTestId("dialog-yes").click();
}

/** Counts the requests of a page, or of a context, to addresses that match. `count.requests` is their number. */
export function countRequests(page, pattern) {
  const count = { requests: 0 };
  page.on("request", (request) => (count.requests += pattern.test(request.url()) ? 1 : 0));
  return count;
}

/** Tells the page that it is hidden or shown. */
export const setHidden = (page, hidden) =>
  page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);

/** Waits until the element is visible and its text contains or matches `text`. */
export const untilText = (page, id, text) =>
  expect(page.getByTestId(id).filter({ visible: true })).toContainText(text);

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
      const text = node.getClientRects().length ? node.textContent.trim() : "";
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
