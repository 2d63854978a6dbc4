// The order page while the buyer looks elsewhere, and its address form (D5, E1).

import { ADDRESS, callAdmin, createOrder, publish, unique } from "../support/app.js";
import { buyNow, changeAnswers, fillInAddress, openSale, setHidden, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

/** Reserves a unit for a buyer who is signed in on the page, and opens the order. Resolves to its number. */
async function openOrder(page, user = unique("ann")) {
  const { buyer, order } = await createOrder({}, user);
  await page.addInitScript((token) => localStorage.setItem("stampede.token", token), buyer.token);
  await page.goto(`/order?order_no=${order}`);
  return order;
}

test("a hidden page polls rarely, and its title says when the order can be paid", async ({ page }) => {
  await page.clock.install();
  let status = "queued";
  let polls = 0;
  await page.route(/\/api\/orders\/sale-/, async (route) => {
    polls += 1;
    const response = await route.fetch();
    await route.fulfill({ response, headers: {}, json: { ...(await response.json()), status } });
  });
  await openOrder(page);
  await expect(page).toHaveTitle(/Reserved/);
  await untilText(page, "headline", "You are in");
  await setHidden(page, true);
  // What was due when the page was hidden.
  await page.clock.runFor(3_000);
  polls = 0;
  await page.clock.runFor(61_000);
  expect(polls).toBeLessThanOrEqual(4);
  status = "pending_payment";
  await page.clock.runFor(21_000);
  await expect(page).toHaveTitle(/Pay now/);
});

/** Replaces the browser's notifications; `permission` is what the buyer answers. */
const fakeNotifications = (page, permission) =>
  page.addInitScript((answer) => {
    globalThis.shown = [];
    globalThis.asked = 0;
    globalThis.Notification = class extends EventTarget {
      static permission = "default";
      static async requestPermission() {
        globalThis.asked += 1;
        return (Notification.permission = answer);
      }
      constructor(title, options) {
        super();
        if (Notification.permission === "granted") globalThis.shown.push([title, options.tag]);
      }
    };
  }, permission);

for (const [permission, before] of [["granted", "queued"], ["denied", "queued"], ["granted", "waiting"]]) {
  test(`a buyer who looks elsewhere is notified only on request: ${permission}, ${before}`, async ({ page }) => {
    await fakeNotifications(page, permission);
    let status = before;
    await changeAnswers(page, /\/api\/orders\/sale-/, (shown) => ({ ...shown, status }), { "retry-after": "1" });
    const order = await openOrder(page);
    await expect(page.getByTestId("notify")).toBeVisible();
    expect(await page.evaluate(() => globalThis.asked)).toBe(0);
    await page.getByTestId("notify").click();
    await expect(page.getByTestId("notify")).toBeHidden();
    await expect(page.getByTestId("notify-on")).toBeVisible({ visible: permission === "granted" });
    // The page is hidden from the buyer, and polls on, as after a while it would.
    await page.evaluate(() => Object.defineProperty(document, "hidden", { configurable: true, get: () => true }));
    status = "pending_payment";
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await expect(page).toHaveTitle(/Pay now/);
    const shown = permission === "granted" ? [["Pay now", order]] : [];
    expect(await page.evaluate(() => globalThis.shown)).toEqual(shown);
  });
}

test("an order that the shop has lost is ordered again with its ticket, also after a reload", async ({ page }) => {
  const tickets = [];
  let state = "queued";
  await page.route(/\/api\/orders\/sale-/, async (route) => {
    if (state === "lost") return route.fulfill({ status: 404, json: { code: "not_found", status: 404 } });
    const response = await route.fetch();
    const answer = await response.json();
    await route.fulfill({ response, headers: { "retry-after": "1" }, json: state === "queued" ? { ...answer, status: state } : answer });
  });
  await page.route(/\/api\/activities\/[^/]+\/orders$/, (route) => {
    tickets.push(route.request().postDataJSON().ticket);
    // The second request makes the order again.
    if (tickets.length > 1) state = "restored";
    return route.continue();
  });
  await openSale(page);
  await buyNow(page);
  await expect(page).toHaveTitle(/Reserved/);
  state = "lost";
  await page.reload();
  await untilText(page, "headline", "It’s yours");
  await expect(page.getByTestId("notice")).toBeHidden();
  expect(tickets).toEqual([tickets[0], tickets[0]]);
});

test("an order that was lost and cannot be made again says so, and that nothing was charged", async ({ page }) => {
  await openSale(page, { total: 1 });
  await buyNow(page);
  await untilText(page, "headline", "It’s yours");
  const order = new URL(page.url()).searchParams.get("order_no");
  await page.evaluate((key) => sessionStorage.setItem(key, '{"sku":"item","quantity":1}'), `stampede.queued.${order}`);
  await page.route(/\/api\/orders\/sale-/, (route) => route.fulfill({ status: 404, json: { code: "not_found", status: 404 } }));
  await page.route(/\/api\/activities\/[^/]+\/orders$/, (route) =>
    route.fulfill({ status: 409, contentType: "application/problem+json", json: { code: "sold_out", status: 409, title: "Sold out" } }));
  await page.reload();
  await untilText(page, "notice", "You were not charged");
  await expect(page.getByTestId("order")).toBeHidden();
});

test("a page that is online again asks at once", async ({ page }) => {
  await openOrder(page);
  await untilText(page, "headline", "It’s yours");
  const order = /\/api\/orders\/sale-/;
  await page.route(order, (route) => route.abort("internetdisconnected"));
  await untilText(page, "notice", "The shop does not answer");
  // The page waits longer and longer: up to 15 s.
  await page.waitForTimeout(9_000);
  await page.unroute(order);
  const asked = page.waitForRequest(order, { timeout: 1_500 });
  await page.evaluate(() => dispatchEvent(new Event("online")));
  await asked;
  await expect(page.getByTestId("notice")).toBeHidden();
});

test("the address has the lines of the chosen country, and needs those that it needs", async ({ page }) => {
  await openSale(page);
  await buyNow(page);
  // A list of all takes long to make.
  await expect(page.locator("#country option")).toHaveText(["", "United Kingdom"]);
  await expect(page.locator("#country")).toHaveValue("GB");
  await page.locator("#country").focus();
  await expect(page.locator("#country option:checked")).toHaveText("United Kingdom");
  await fillInAddress(page);
  for (const [country, lines] of [
    ["US", ["city", "state", "postal_code"]], ["DE", ["city", "postal_code"]], ["QA", ["city"]], ["AE", ["state"]], ["SG", ["postal_code"]],
  ]) {
    await page.locator("#country").selectOption(country);
    for (const name of ["city", "state", "postal_code"]) await expect(page.locator(`#${name}`)).toBeVisible({ visible: lines.includes(name) });
  }
  await page.locator("#country").selectOption("IN");
  await page.getByTestId("pay").click();
  await expect(page.locator("#pay-form input:invalid")).toHaveAttribute("id", "state");
  await page.locator("#country").selectOption("HK");
  await page.locator("#state").fill("Kowloon");
  const sent = page.waitForRequest(/\/checkout$/);
  await page.getByTestId("pay").click();
  const { name, street, city } = ADDRESS;
  expect((await sent).postDataJSON().address).toEqual({ name, street, city, state: "Kowloon", country: "HK", phone: "" });
  await page.waitForURL(/\/sandbox\/pay\//);
});

test("an address is kept on the device for its user, if the buyer wants", async ({ page }) => {
  const user = unique("add");
  await openOrder(page, user);
  await expect(page.locator("#country")).toHaveValue("GB");
  await fillInAddress(page);
  await page.getByTestId("remember").check();
  await page.getByTestId("pay").click();
  await page.waitForURL(/\/sandbox\/pay\//);
  const second = await openOrder(page, user);
  await expect(page.locator("#street")).toHaveValue("1 Long Road");
  await expect(page.locator("#country")).toHaveValue("DE");
  const stored = await page.evaluate(() => JSON.parse(localStorage.getItem("stampede.address")));
  await openOrder(page, unique("other"));
  await expect(page.getByTestId("pay-form")).toBeVisible();
  await expect(page.locator("#street")).toHaveValue("");
  expect([stored.user, stored.address.remember]).toEqual([user, undefined]);
  expect(second).toMatch(/^sale-/);
  // Unticked, it is removed.
  await openOrder(page, user);
  await expect(page.locator("#street")).toHaveValue("1 Long Road");
  await page.getByTestId("remember").uncheck();
  await page.getByTestId("pay").click();
  await page.waitForURL(/\/sandbox\/pay\//);
  expect(await page.evaluate(() => localStorage.getItem("stampede.address"))).toBeNull();
});

test("what is typed stays for the tab until the order is paid, or its buyer signs out", async ({ page }) => {
  const user = unique("typ");
  const untilTyped = async () => {
    await expect(page.getByTestId("pay-form")).toBeVisible();
    for (const [name, value] of Object.entries(ADDRESS)) await expect(page.locator(`#${name}`)).toHaveValue(value);
    await expect(page.getByTestId("remember")).toBeChecked();
  };
  const type = async () => {
    await expect(page.getByTestId("pay-form")).toBeVisible();
    await fillInAddress(page);
    await page.getByTestId("remember").check();
  };
  /** Where the browser keeps it, besides the form. */
  const kept = () => page.evaluate((street) => {
    const has = (storage) => Object.values(storage).some((value) => value.includes(street));
    return { tab: has({ ...sessionStorage }), device: has({ ...localStorage }) };
  }, ADDRESS.street);

  await openOrder(page, user);
  await type();
  await page.reload();
  await untilTyped();
  await page.getByTestId("language").click();
  await expect(page.locator("html")).toHaveAttribute("lang", "zh-CN");
  await untilTyped();
  expect(await kept()).toEqual({ tab: true, device: false });
  await page.getByTestId("sign-out").click();
  await expect(page.getByTestId("order")).toBeHidden();
  expect(await kept()).toEqual({ tab: false, device: false });

  await openOrder(page, user);
  await type();
  await page.getByTestId("remember").uncheck();
  await page.getByTestId("pay").click();
  await page.getByTestId("sandbox-pay").click();
  await expect(page.locator("#order[data-status=paid]")).toBeVisible();
  expect(await kept()).toEqual({ tab: false, device: false });
});

test("a payment that is declined after the buyer was sent back is told from a later one", async ({ page }) => {
  const order = await openOrder(page);
  const [first, second] = ["2026-01-01T00:00:00.000Z", "2026-01-01T00:01:00.000Z"];
  let changes = { checkout_url: "https://pay.example/s" };
  await changeAnswers(page, `**/api/orders/${order}`, (shown) => ({ ...shown, ...changes }), { "retry-after": "1" });
  const comeBack = () => page.goto(`/order?order_no=${order}&payment=done`);
  const untilDeclined = async () => {
    await untilText(page, "headline", "The payment was declined");
    await untilText(page, "order", "You were not charged.");
    await expect(page.getByTestId("to-payment")).toBeVisible();
  };
  await comeBack();
  await untilText(page, "headline", "Confirming your payment");
  changes.declined_at = first;
  await untilDeclined();
  await page.reload();
  await untilDeclined();
  // The second payment: its result is not known yet.
  await comeBack();
  await untilText(page, "headline", "Confirming your payment");
  await expect(page.getByTestId("to-payment")).toBeHidden();
  changes.declined_at = second;
  await untilDeclined();
  // A session that ended unpaid.
  await comeBack();
  await untilText(page, "headline", "Confirming your payment");
  changes = { declined_at: second, checkout_url: undefined };
  await untilText(page, "headline", "The payment was declined");
  await expect(page.getByTestId("pay-form")).toBeVisible();
});

test("a calendar file reminds of the start", async ({ page }) => {
  const title = `Läufer, "Größe; 42"\\ ${"很".repeat(60)}`;
  const { id } = await publish({ startsIn: 600_000, title });
  await page.goto(`/sale?activity=${id}`);
  const downloading = page.waitForEvent("download");
  await page.getByTestId("remind").click();
  const download = await downloading;
  expect(download.suggestedFilename()).toBe(`${id}.ics`);
  const text = await (await download.createReadStream()).toArray().then((parts) => Buffer.concat(parts).toString());
  const folded = text.split("\r\n");
  expect(folded.every((line) => Buffer.byteLength(line) <= 75)).toBe(true);
  const lines = text.replaceAll("\r\n ", "").split("\r\n");
  const { starts_at: start } = await callAdmin("GET", `/activities/${id}`);
  expect(lines).toContain(`DTSTART:${start.replace(/[-:]|\.\d+/g, "")}`);
  expect(lines).toContain(`SUMMARY:${title.replace(/[\\;,]/g, "\\$&")}`);
  expect([lines[0], lines.at(-2), lines.at(-1)]).toEqual(["BEGIN:VCALENDAR", "END:VCALENDAR", ""]);
  await openSale(page);
  await expect(page.getByTestId("buy")).toBeEnabled();
  await expect(page.getByTestId("remind")).toBeHidden();
});
