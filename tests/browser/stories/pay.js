// The order page: its bar, what it says of each way to check out, and what stays of a paid order (E1, E4).

import { devices } from "@playwright/test";
import { ADDRESS, call, createOrder, operatorToken, unique } from "../support/app.js";
import { accessibilityViolations } from "../support/axe.js";
import { buyNow, changeAnswers, clickAndConfirm, fillInAddress, holdAnswers, openSale, payNow, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

const ORDER = /\/api\/orders\/sale-[^/]+$/;
const ACTIVITY = /\/api\/activities\/sale-[^/]+$/;

/** Opens an order to pay, with members of the order and of its activity replaced. `shown` may be changed afterwards. */
async function openOrder(page, { shown = {}, sale = {}, path = "" } = {}) {
  const { buyer, order } = await createOrder({}, unique("pia"));
  await changeAnswers(page, ORDER, (answer) => ({ ...answer, ...shown }), { "retry-after": "1" });
  await changeAnswers(page, ACTIVITY, (answer) => ({ ...answer, ...sale }));
  await page.addInitScript((token) => localStorage.setItem("stampede.token", token), buyer.token);
  await page.goto(`/order?order_no=${order}${path}`);
  await expect(page.getByTestId("order")).toBeVisible();
  return order;
}

test("no notice covers the bar, and one that is closed does not come back", async ({ newPage }) => {
  const page = await newPage(null, devices["Pixel 7"]);
  await openOrder(page);
  await expect(page.getByTestId("pay")).toBeEnabled();
  await page.route(ORDER, (route) => route.abort("connectionreset"));
  await expect(page.getByTestId("notice")).toBeVisible();
  const [notice, bar] = [await page.getByTestId("notice").boundingBox(), await page.getByTestId("bar").boundingBox()];
  expect(notice.y + notice.height).toBeLessThanOrEqual(bar.y);
  await page.getByTestId("notice-close").click();
  await expect(page.getByTestId("notice")).toBeHidden();
  await page.waitForRequest(ORDER);
  await page.waitForRequest(ORDER);
  await expect(page.getByTestId("notice")).toBeHidden();
});

test("a page without a network says so", async ({ page }) => {
  await openOrder(page);
  // Requests that a test answers need no network.
  await page.unroute(ORDER);
  await page.context().setOffline(true);
  await untilText(page, "notice", "You are offline");
  await page.context().setOffline(false);
  await expect(page.getByTestId("notice")).toBeHidden();
});

test("the queue's bar goes on after a reload", async ({ page }) => {
  const shown = { status: "queued", ahead: 100, estimated_wait_ms: 150_000 };
  await openOrder(page, { shown });
  const share = () => page.getByTestId("queue-fill").evaluate((fill) => Number(fill.style.getPropertyValue("--share")));
  await untilText(page, "ahead", "Orders ahead: 100");
  await untilText(page, "order", "about 3 min");
  shown.ahead = 40;
  await untilText(page, "ahead", "Orders ahead: 40");
  expect(await share()).toBeCloseTo(0.6);
  await page.reload();
  await untilText(page, "ahead", "Orders ahead: 40");
  expect(await share()).toBeCloseTo(0.6);
});

for (const [device, options] of [["phone", devices["Pixel 7"]], ["desktop", { viewport: { width: 1280, height: 720 } }]]) {
  for (const locale of ["en-GB", "zh-CN"]) {
    test(`the bar has the next step in the same box in every state (${device}, ${locale})`, async ({ newPage }) => {
      const page = await newPage(null, { ...options, locale });
      const shown = { status: "queued", ahead: 3 };
      await openOrder(page, { shown });
      const steps = { queued: "pay", pending_payment: "pay", paid: "print", refunding: "again", refunded: "again", cancelled: "again", expired: "again", failed: "again" };
      const boxes = new Set();
      for (const [status, step] of Object.entries(steps)) {
        await page.unroute(ORDER);
        await changeAnswers(page, ORDER, (answer) => ({ ...answer, status, paid_at: status === "paid" ? answer.created_at : null }), { "retry-after": "1" });
        await page.reload();
        await expect(page.locator(`#order[data-status=${status}]`)).toBeVisible();
        for (const id of ["pay", "to-payment", "print", "again"]) await expect(page.getByTestId(id)).toBeVisible({ visible: id === step });
        boxes.add(JSON.stringify([await page.getByTestId("bar").boundingBox(), await page.getByTestId(step).boundingBox()]));
      }
      expect([...boxes]).toHaveLength(1);
    });
  }
}

test("a buyer who got a refund has a way on", async ({ page }) => {
  const { id } = await openSale(page);
  await buyNow(page);
  await payNow(page);
  await clickAndConfirm(page, "refund");
  await untilText(page, "headline", "Your refund is on its way");
  await page.getByTestId("again").click();
  await page.waitForURL(`**/sale?activity=${id}`);
});

test("a sale without delivery asks for no address, and one whose provider asks says so", async ({ page }) => {
  const bodies = [];
  await page.route(/\/checkout$/, (route) => {
    bodies.push(route.request().postDataJSON());
    return route.fulfill({ json: { checkout_url: "https://pay.example/s" } });
  });
  await page.route("https://pay.example/**", (route) => route.fulfill({ body: "The payment page" }));
  for (const checkout of ["none", "provider"]) {
    await openOrder(page, { sale: { checkout } });
    await expect(page.getByTestId("pay")).toBeEnabled();
    await expect(page.getByTestId("pay-form")).toBeHidden();
    await expect(page.getByTestId("asked-later")).toBeVisible({ visible: checkout === "provider" });
    await untilText(page, "bar", checkout === "none" ? "Tax included" : "Tax and shipping included");
    await page.getByTestId("pay").click();
    await page.waitForURL("https://pay.example/s");
    expect(bodies.pop()).toEqual({ language: "en" });
    // A poll may be under way.
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.route(/\/checkout$/, (route) => (bodies.push(route.request().postDataJSON()), route.fulfill({ json: { checkout_url: "https://pay.example/s" } })));
    await page.route("https://pay.example/**", (route) => route.fulfill({ body: "The payment page" }));
  }
});

test("the address can be changed until the order is paid", async ({ page }) => {
  await openSale(page);
  await buyNow(page);
  await fillInAddress(page);
  await page.getByTestId("pay").click();
  await page.waitForURL(/\/sandbox\/pay\//);
  await page.goBack({ waitUntil: "commit" });
  await untilText(page, "delivery", "Mia Example, 12345 Town, Germany");
  await expect(page.getByTestId("pay-form")).toBeHidden();
  await page.getByTestId("change-address").click();
  await expect(page.locator("#name")).toBeFocused();
  await expect(page.locator("#street")).toHaveValue(ADDRESS.street);
  await page.getByTestId("change-address").click();
  await expect(page.getByTestId("to-payment")).toBeVisible();
  await page.getByTestId("change-address").click();
  await page.locator("#city").fill("Village");
  const sent = page.waitForRequest(/\/checkout$/);
  await page.getByTestId("pay").click();
  expect((await sent).postDataJSON().address.city).toBe("Village");
  await page.getByTestId("sandbox-pay").click();
  await untilText(page, "headline", "Paid");
  await untilText(page, "order", "Mia Example, 12345 Village, Germany");
  await expect(page.getByTestId("change-address")).toBeHidden();
});

test("a free order is confirmed on its own page, without a word about payment", async ({ page }) => {
  const shown = { amount: 0 };
  await openOrder(page, { shown, sale: { checkout: "none", refund_window_seconds: 86_400 } });
  await page.route(/\/checkout$/, (route) => {
    Object.assign(shown, { status: "paid", paid_at: new Date().toISOString() });
    return route.fulfill({ json: { checkout_url: "/order", pay_by: null } });
  });
  const hasNoPaymentWords = async () => expect(await page.innerText("body")).not.toMatch(/\b(pay|payment|charged|paid|refund|money)\b|€/i);
  await untilText(page, "pay", "Claim it");
  await hasNoPaymentWords();
  await page.getByTestId("pay").click();
  await untilText(page, "headline", "It’s yours. Enjoy!");
  await hasNoPaymentWords();
  await page.goto("/orders");
  await untilText(page, "order-link", /./);
});

test("what is below the form comes when it is known whether there is one", async ({ page }) => {
  await openOrder(page);
  const release = await holdAnswers(page, ACTIVITY);
  await page.reload();
  await expect(page.getByTestId("pay")).toBeVisible();
  await expect(page.getByTestId("code")).toBeHidden();
  release();
  await expect(page.getByTestId("code")).toBeVisible();
});

test("an order has a short code that can be copied, and its full number under details", async ({ page }) => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const order = await openOrder(page);
  const code = `${order.slice(-8, -4)}-${order.slice(-4)}`;
  await expect(page.getByTestId("code")).toHaveText(code);
  await page.getByTestId("copy").click();
  await untilText(page, "copy", "Copied");
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(code);
  await expect(page.getByText(order)).toHaveCount(0);
  await page.getByText("Details").click();
  await expect(page.locator("#more-facts")).toContainText(order);
});

test("a paid order prints as a receipt", async ({ page }) => {
  await openSale(page, { title: "Spring sale" });
  await buyNow(page);
  await payNow(page);
  const order = new URL(page.url()).searchParams.get("order_no");
  await call("POST", `/api/admin/orders/${order}/refund`, { token: operatorToken(), body: { amount: 500, reason: "It came late" }, headers: { "idempotency-key": order } });
  await page.reload();
  await expect(page.locator("#facts")).toContainText("Refund€5.00");
  await page.evaluate(() => (globalThis.print = () => dispatchEvent(new Event("beforeprint"))));
  await page.getByTestId("print").click();
  await page.emulateMedia({ media: "print" });
  const text = await page.innerText("body");
  for (const part of ["Stampede", "Receipt", order.slice(-4), order, "1 × The item", "Spring sale", "€19.99", "Tax and shipping included", "Paid", "Mia Example, 12345 Town, Germany"]) {
    expect(text.replaceAll("\n", "")).toContain(part);
  }
  for (const id of ["bar", "nav-orders", "refund", "copy"]) await expect(page.getByTestId(id)).toBeHidden();
});

for (const reducedMotion of ["no-preference", "reduce"]) {
  test(`the moment moves once, and not at all for those who want less motion (${reducedMotion})`, async ({ newPage }) => {
    const page = await newPage(null, { reducedMotion });
    await page.addInitScript(() => {
      globalThis.animated = [];
      addEventListener("animationstart", ({ animationName }) => globalThis.animated.push(animationName), true);
    });
    await openSale(page);
    await buyNow(page);
    await untilText(page, "headline", /It’s yours for \d:\d\d/);
    const animated = () => page.evaluate(() => globalThis.animated.filter((name) => name !== "turn"));
    if (reducedMotion === "no-preference") await expect.poll(animated).toContain("pop");
    else expect(await animated()).toEqual([]);
    await page.reload();
    await untilText(page, "headline", /It’s yours for \d:\d\d/);
    expect(await animated()).toEqual([]);
  });
}

test("a visitor who is signed out is told what to do", async ({ page }) => {
  const { order } = await createOrder();
  for (const path of [`/order?order_no=${order}`, "/orders"]) {
    await page.goto(path);
    await page.getByRole("button", { name: "Close" }).click();
    await expect(page.locator("main")).toContainText(/Sign in to see/);
    await page.locator("main").getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByTestId("sign-in-user")).toBeVisible();
  }
});

const STATES = ["queued", "pending_payment", "paid", "cancelled", "expired", "failed", "refunding", "refunded"];

for (const colorScheme of ["light", "dark"]) {
  test(`an order has no accessibility violations in any state, in ${colorScheme} colours`, { tag: "@phone" }, async ({ newPage }) => {
    const page = await newPage(null, { colorScheme, reducedMotion: "reduce" });
    const shown = { ahead: 3 };
    await openOrder(page, { shown });
    for (const [status, changes] of [...STATES.map((status) => [status, {}]),
      ["pending_payment", { checkout_url: "https://pay.example/s", declined_at: "2026-01-01T00:00:00.000Z" }]]) {
      Object.assign(shown, changes, { status });
      if (status === "paid") shown.paid_at = new Date().toISOString();
      await page.reload();
      await expect(page.locator(`#order[data-status=${changes.declined_at ? "declined" : status}]`)).toBeVisible();
      expect(await accessibilityViolations(page), status).toEqual([]);
    }
  });
}

test("an order is paid with the keyboard alone, and a screen reader meets what is bought before the form and Pay", async ({ page }) => {
  await openOrder(page, { sale: { title: "Spring sale" } });
  await expect(page.getByTestId("pay")).toBeEnabled();
  const tree = await page.locator("main").ariaSnapshot();
  const places = [/heading "It’s yours for [\d:]+" \[level=1\]/, /1 × The item/, /Spring sale/, /€19.99/, /textbox "Name"/, /combobox "Country or region"/,
    /Total €19.99/, /Tax and shipping included/, /button "Pay €19.99"/].map((part) => tree.search(part));
  expect(places, tree).toEqual([...places].sort((a, b) => a - b));
  expect(places[0], tree).toBeGreaterThanOrEqual(0);
  await page.locator("#name").focus();
  for (const value of [ADDRESS.name, "Ger", ADDRESS.street, ADDRESS.postal_code, ADDRESS.city]) {
    await page.keyboard.type(value);
    await page.keyboard.press("Tab");
  }
  for (let steps = 0; steps < 10 && (await page.evaluate(() => document.activeElement.id)) !== "pay"; steps += 1) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/sandbox\/pay\//);
});
