// Clicks on the buy button: one order for each attempt, with retries (A3, A5, B3).

import { call, eventually, publish, signIn, stock, unique } from "../support/app.js";
import { buyNow, countRequests, holdAnswers, openSale, recordText, signInOnPage, untilCanBuy, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

// Runs in the page and measures there, so that a slow test does not count. To allow for a slow machine, it counts the
// ticks of a timer at which the button was still disabled more than ten seconds after the click.
const recordHowLongDisabled = () => {
  const button = document.querySelector('[data-testid="buy"]');
  let clickedAt;
  globalThis.lateTicks = 0;
  setInterval(() => {
    if (button.disabled && performance.now() - clickedAt > 10_000) globalThis.lateTicks += 1;
  }, 50);
  button.addEventListener("click", () => (clickedAt = performance.now()), { capture: true });
  new MutationObserver(() => {
    if (!button.disabled) globalThis.disabledFor = performance.now() - clickedAt;
  }).observe(button, { attributeFilter: ["disabled"] });
};

const ORDERS = /\/api\/activities\/[^/]+\/orders$/;

test("a double click makes one request", async ({ page }) => {
  const count = countRequests(page, ORDERS);
  const release = await holdAnswers(page, ORDERS);
  const { id } = await openSale(page, { perUser: 5 });
  await untilCanBuy(page);
  await page.getByTestId("buy").dblclick({ force: true, noWaitAfter: true });
  expect(await page.getByTestId("buy").isDisabled()).toBe(true);
  release();
  await page.waitForURL(/\/order\?/);
  expect(count.requests).toBe(1);
  expect((await stock(id)).held).toBe(1);
});

test("clicks after an order was made, before its page is shown, make no second order", async ({ page }) => {
  const { id } = await openSale(page, { perUser: 5 });
  await untilCanBuy(page);
  const release = await holdAnswers(page, /\/order\?/);
  const count = countRequests(page, ORDERS);
  const opened = page.waitForRequest(/\/order\?/);
  // Clicks whenever the button is enabled.
  await page.evaluate(() => setInterval(() => document.querySelector('[data-testid="buy"]').click(), 20));
  await opened;
  // Longer than a click that makes no order disables the button.
  await page.waitForTimeout(11_000);
  release();
  await page.waitForURL(/\/order\?/);
  expect(count.requests).toBe(1);
  expect((await stock(id)).held).toBe(1);
});

test("the button is enabled again after at most ten seconds, even without a response", async ({ page }) => {
  await page.route(ORDERS, () => {});
  await openSale(page);
  await untilCanBuy(page);
  await page.evaluate(recordHowLongDisabled);
  await page.getByTestId("buy").click();
  await page.waitForFunction(() => globalThis.disabledFor);
  const [disabledFor, lateTicks] = await page.evaluate(() => [globalThis.disabledFor, globalThis.lateTicks]);
  // After a stall this timer may run once before the page's own timer.
  const seen = `the button was disabled for ${disabledFor} ms, ${lateTicks} ticks too long`;
  expect(disabledFor > 2_000 && lateTicks <= 1, seen).toBe(true);
});

test("a lost response still makes one order", async ({ page }) => {
  const { id } = await publish({ perUser: 5 });
  const user = unique("lou");
  await page.goto(`/sale?activity=${id}`);
  const tickets = [];
  await page.route(ORDERS, async (route) => {
    tickets.push(route.request().postDataJSON().ticket);
    if (tickets.length > 1) return route.continue();
    await route.fetch();
    return route.abort("connectionreset");
  });
  await signInOnPage(page, user);
  await buyNow(page);
  expect(tickets.length).toBe(2);
  expect(tickets[0]).toBe(tickets[1]);
  expect((await stock(id)).held).toBe(1);
  const { token } = await signIn(user);
  const orders = await eventually("the order reaching the ledger", async () => {
    const value = (await call("GET", "/api/orders", { token })).items;
    return { done: value.length > 0, value };
  });
  expect(orders.length).toBe(1);
});

test("the buyer of the last unit gets the order whose response was lost, though a retry is refused as sold out", async ({ page }) => {
  let requests = 0;
  await page.route(ORDERS, async (route) => {
    requests += 1;
    if (requests > 1) return route.fulfill({ status: 409, json: { status: 409, code: "sold_out" } });
    await route.fetch();
    return route.abort("connectionreset");
  });
  await openSale(page, { total: 1 });
  await buyNow(page);
  await untilText(page, "headline", "It’s yours");
  expect(requests).toBe(2);
});

test("a page that is loaded again before the response arrives opens the order", async ({ page }) => {
  const reserved = new Promise((resolve) => page.route(ORDERS, async (route) => resolve(await route.fetch())));
  await openSale(page, { total: 1 });
  await untilCanBuy(page);
  await page.getByTestId("buy").click();
  await reserved;
  await page.reload();
  await page.waitForURL(/\/order\?/);
  await untilText(page, "headline", "It’s yours");
});

test("a page that is loaded again after a request that made no order sells again", async ({ page }) => {
  let requests = 0;
  const sent = new Promise((resolve) => page.route(ORDERS, (route) => {
    requests += 1;
    if (requests > 1) return route.continue();
    return resolve();
  }));
  await openSale(page, { total: 1 });
  await untilCanBuy(page);
  await page.getByTestId("buy").click();
  await sent;
  await page.reload();
  const note = await recordText(page.getByTestId("note"));
  await note.untilShown("Checking whether an earlier try went through");
  await untilText(page, "note", "to pay after you tap");
  await page.getByTestId("buy").click();
  await page.waitForURL(/\/order\?/);
});

test("a ticket that expires after a lost response makes no second order", async ({ page }) => {
  const { id } = await publish({ perUser: 5 });
  await page.goto(`/sale?activity=${id}`);
  const tickets = [];
  await page.route(ORDERS, async (route) => {
    tickets.push(route.request().postDataJSON().ticket);
    if (tickets.length > 1) return route.continue();
    await route.fetch();
    await page.evaluate((key) => {
      const kept = JSON.parse(sessionStorage.getItem(key));
      sessionStorage.setItem(key, JSON.stringify({ ...kept, expires_at: new Date(Date.now() + 10_000).toISOString() }));
    }, `stampede.ticket.${id}`);
    return route.abort("connectionreset");
  });
  await signInOnPage(page, unique("eli"));
  await untilCanBuy(page);
  await expect(page.getByTestId("ticket-step")).toHaveText("Entry pass ready");
  await page.getByTestId("buy").click();
  await page.waitForURL(/\/order\?/);
  expect(tickets[0]).toBe(tickets[1]);
  expect((await stock(id)).held).toBe(1);
});

test("a 429 is retried after its Retry-After, with the same ticket and without a click", async ({ page }) => {
  const attempts = [];
  await page.route(ORDERS, (route) => {
    attempts.push({ at: Date.now(), ticket: route.request().postDataJSON().ticket });
    if (attempts.length > 1) return route.continue();
    return route.fulfill({
      status: 429,
      headers: { "retry-after": "2", "content-type": "application/problem+json" },
      body: JSON.stringify({ status: 429, code: "rate_limited", detail: "Too many requests." }),
    });
  });
  await openSale(page);
  await untilCanBuy(page);
  const button = await recordText(page.getByTestId("buy"));
  await page.getByTestId("buy").click();
  await page.waitForURL(/\/order\?/);
  await button.untilShown(/Next try in [12] s/);
  expect(attempts.length).toBe(2);
  expect(attempts[0].ticket).toBe(attempts[1].ticket);
  const waited = attempts[1].at - attempts[0].at;
  expect(waited >= 2_000 && waited < 12_000, `it waited ${waited} ms`).toBe(true);
});

const LOST_ANSWERS = {
  "a lost response": (route) => route.abort("connectionreset"),
  "a 503 because Redis timed out": (route) =>
    route.fulfill({ status: 503, headers: { "retry-after": "1" }, json: { status: 503, code: "not_ready" } }),
};

for (const [description, loseAnswer] of Object.entries(LOST_ANSWERS)) {
  test(`${description} before the sale ended opens the order that was made`, async ({ page }) => {
    let attempts = 0;
    await page.route(ORDERS, async (route) => {
      attempts += 1;
      if (attempts > 1) return route.fulfill({ status: 410, json: { status: 410, code: "ended" } });
      await route.fetch();
      return loseAnswer(route);
    });
    await openSale(page);
    await buyNow(page);
    await untilText(page, "headline", "It’s yours");
    expect(attempts).toBe(2);
  });

  test(`${description} before the sale ended, whose order cannot be looked up, is not reported as a refusal`, async ({ page }) => {
    let attempts = 0;
    await page.route(ORDERS, (route) => {
      attempts += 1;
      if (attempts > 1) return route.fulfill({ status: 410, json: { status: 410, code: "ended" } });
      return loseAnswer(route);
    });
    await page.route(/\/api\/orders\/sale-/, (route) => route.fulfill({ status: 503, json: { status: 503, code: "not_ready" } }));
    await openSale(page);
    await untilCanBuy(page);
    await page.getByTestId("buy").click();
    await untilText(page, "notice", "An earlier try may have gone through");
    await expect(page.getByTestId("notice").getByRole("link", { name: "My orders" })).toBeVisible();
  });
}

test("a failed ticket request is retried without a click", async ({ page }) => {
  const { id } = await publish();
  await page.goto(`/sale?activity=${id}`);
  await page.route(/\/ticket$/, (route) => route.abort("connectionreset"), { times: 1 });
  const failed = page.waitForEvent("requestfailed", (request) => request.url().endsWith("/ticket"));
  const issued = page.waitForResponse(/\/ticket$/);
  await signInOnPage(page, unique("net"));
  await failed;
  expect((await issued).status()).toBe(201);
});

test("a ticket that arrives after its user signed out is not used by the next user", async ({ page }) => {
  const { id } = await publish();
  const [ann, bob] = [unique("ann"), unique("bob")];
  await page.goto(`/sale?activity=${id}`);
  const release = await holdAnswers(page, /\/ticket$/, { times: 1 });
  const asked = page.waitForRequest(/\/ticket$/);
  await signInOnPage(page, ann);
  await asked;
  await page.getByTestId("sign-out").click();
  await signInOnPage(page, bob);
  release();
  await buyNow(page);
  const { token } = await signIn(bob);
  await eventually("the order of the user who clicked", async () => {
    const value = (await call("GET", "/api/orders", { token })).items;
    return { done: value.length === 1, value };
  });
});
