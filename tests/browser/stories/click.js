// The click: once, and never in vain (A3, A5, B3).

import assert from "node:assert/strict";
import { test } from "node:test";
import { call, eventually, operate, publish, signIn, unique } from "../support/app.js";
import { listenTo, part, signInOn, untilButton, untilSays, withPage } from "../support/browser.js";

// The page's own account: a slow test does not make a slow button. Nor does a slow machine: what counts after ten
// seconds is how often the page had its turn, and left the button as it was.
const noteHowLongHeld = () => {
  const button = document.querySelector('[data-testid="buy"]');
  let clickedAt;
  globalThis.lateTurns = 0;
  setInterval(() => {
    if (button.disabled && performance.now() - clickedAt > 10_000) globalThis.lateTurns += 1;
  }, 50);
  button.addEventListener("click", () => (clickedAt = performance.now()), { capture: true });
  new MutationObserver(() => {
    if (!button.disabled) globalThis.heldFor = performance.now() - clickedAt;
  }).observe(button, { attributeFilter: ["disabled"] });
};

const ORDERS = /\/api\/activities\/[^/]+\/orders$/;

test("a double click makes one request", async () => {
  const { id } = await publish({ perUser: 5 });
  await withPage(`/sale?activity=${id}`, async (page) => {
    let requests = 0;
    let release;
    const released = new Promise((resolve) => (release = resolve));
    await page.route(ORDERS, async (route) => {
      requests += 1;
      await released;
      await route.continue();
    });
    await signInOn(page, unique("kim"));
    await untilButton(page, "enabled");
    await part(page, "buy").dblclick({ force: true, noWaitAfter: true });
    assert.equal(await part(page, "buy").isDisabled(), true);
    release();
    await page.waitForURL(/\/order\?/);
    assert.equal(requests, 1);
  });
  const { skus } = await operate("GET", `/activities/${id}/stats`);
  assert.equal(skus[0].held, 1);
});

test("the button comes back after ten seconds at most, even if no answer comes", async () => {
  const { id } = await publish();
  await withPage(`/sale?activity=${id}`, async (page) => {
    await page.route(ORDERS, () => {});
    await signInOn(page, unique("ben"));
    await untilButton(page, "enabled");
    await page.evaluate(noteHowLongHeld);
    await part(page, "buy").click();
    await page.waitForFunction(() => globalThis.heldFor);
    const [heldFor, lateTurns] = await page.evaluate(() => [globalThis.heldFor, globalThis.lateTurns]);
    // After a hold-up the account may be first in the queue, once.
    assert.ok(heldFor > 2_000 && lateTurns <= 1, `the button was held for ${heldFor} ms, for ${lateTurns} turns too long`);
  });
});

test("an answer that gets lost on its way makes one order all the same", async () => {
  const { id } = await publish({ perUser: 5 });
  const user = unique("lou");
  await withPage(`/sale?activity=${id}`, async (page) => {
    const tickets = [];
    await page.route(ORDERS, async (route) => {
      tickets.push(route.request().postDataJSON().ticket);
      if (tickets.length > 1) return route.continue();
      await route.fetch();
      return route.abort("connectionreset");
    });
    await signInOn(page, user);
    await untilButton(page, "enabled");
    await part(page, "buy").click();
    await page.waitForURL(/\/order\?/);
    assert.equal(tickets.length, 2);
    assert.equal(tickets[0], tickets[1]);
  });
  const { skus } = await operate("GET", `/activities/${id}/stats`);
  assert.equal(skus[0].held, 1);
  const { token } = await signIn(user);
  const orders = await eventually("the order reaching the ledger", async () => {
    const value = await call("GET", "/api/orders", { token });
    return { done: value.length > 0, value };
  });
  assert.equal(orders.length, 1);
});

test("a ticket whose time runs out while its answer is lost makes no second order", async () => {
  const { id } = await publish({ perUser: 5 });
  await withPage(`/sale?activity=${id}`, async (page) => {
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
    await signInOn(page, unique("eli"));
    await untilButton(page, "enabled");
    await page.locator("#steps").waitFor({ state: "hidden" });
    await part(page, "buy").click();
    await page.waitForURL(/\/order\?/);
    assert.equal(tickets[0], tickets[1]);
  });
  const { skus } = await operate("GET", `/activities/${id}/stats`);
  assert.equal(skus[0].held, 1);
});

test("a busy server is asked again when it said, with the same ticket, without a click", async () => {
  const { id } = await publish();
  await withPage(`/sale?activity=${id}`, async (page) => {
    const tries = [];
    await page.route(ORDERS, (route) => {
      tries.push({ at: Date.now(), ticket: route.request().postDataJSON().ticket });
      if (tries.length > 1) return route.continue();
      return route.fulfill({
        status: 429,
        headers: { "retry-after": "2", "content-type": "application/problem+json" },
        body: JSON.stringify({ status: 429, code: "rate_limited", detail: "Too many requests." }),
      });
    });
    await signInOn(page, unique("pia"));
    await untilButton(page, "enabled");
    const notice = await listenTo(part(page, "notice"));
    await part(page, "buy").click();
    await page.waitForURL(/\/order\?/);
    await notice.says(/Next try in [12] s/);
    assert.equal(tries.length, 2);
    assert.equal(tries[0].ticket, tries[1].ticket);
    const waited = tries[1].at - tries[0].at;
    assert.ok(waited >= 2_000 && waited < 12_000, `it waited ${waited} ms`);
  });
});

const LOST = {
  "an answer that got lost": (route) => route.abort("connectionreset"),
  "an answer that Redis did not give in time": (route) =>
    route.fulfill({ status: 503, headers: { "retry-after": "1" }, json: { status: 503, code: "not_ready" } }),
};

for (const [what, lose] of Object.entries(LOST)) {
  test(`${what} before the sale ended is not told as a refusal`, async () => {
    const { id } = await publish();
    await withPage(`/sale?activity=${id}`, async (page) => {
      let tries = 0;
      await page.route(ORDERS, async (route) => {
        tries += 1;
        if (tries > 1) return route.fulfill({ status: 410, json: { status: 410, code: "ended" } });
        await route.fetch();
        return lose(route);
      });
      await signInOn(page, unique("una"));
      await untilButton(page, "enabled");
      await part(page, "buy").click();
      await untilSays(page, "notice", "One of your tries may have gone through");
      await part(page, "notice").getByRole("link", { name: "My orders" }).waitFor();
      assert.equal(tries, 2);
    });
  });
}

test("a ticket that could not be fetched is fetched again, without a click", async () => {
  const { id } = await publish();
  await withPage(`/sale?activity=${id}`, async (page) => {
    await page.route(/\/ticket$/, (route) => route.abort("connectionreset"), { times: 1 });
    const failed = page.waitForEvent("requestfailed", (request) => request.url().endsWith("/ticket"));
    const issued = page.waitForResponse(/\/ticket$/);
    await signInOn(page, unique("net"));
    await failed;
    assert.equal((await issued).status(), 201);
  });
});

test("a ticket that comes when its user has gone is nobody else's", async () => {
  const { id } = await publish();
  const [ann, bob] = [unique("ann"), unique("bob")];
  await withPage(`/sale?activity=${id}`, async (page) => {
    let release;
    const released = new Promise((resolve) => (release = resolve));
    await page.route(
      /\/ticket$/,
      async (route) => {
        const response = await route.fetch();
        await released;
        await route.fulfill({ response });
      },
      { times: 1 },
    );
    const asked = page.waitForRequest(/\/ticket$/);
    await signInOn(page, ann);
    await asked;
    await part(page, "sign-out").click();
    await signInOn(page, bob);
    release();
    await untilButton(page, "enabled");
    await part(page, "buy").click();
    await page.waitForURL(/\/order\?/);
  });
  const { token } = await signIn(bob);
  await eventually("the order of who clicked", async () => {
    const value = await call("GET", "/api/orders", { token });
    return { done: value.length === 1, value };
  });
});
