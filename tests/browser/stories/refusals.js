// When there is nothing to win: sold out, at the limit, paused, too busy (A4, B9).

import assert from "node:assert/strict";
import { test } from "node:test";
import { call, operate, publish, reserve, signIn, unique, untilOrder } from "../support/app.js";
import { enterAsOperator, listenTo, part, signInOn, untilButton, untilSays, withPage } from "../support/browser.js";

test("what is sold out says so, asks nothing, and comes back when a unit does", async () => {
  const { id } = await publish({ total: 1 });
  const other = await signIn();
  const { order_no: order } = await reserve(id, other);
  await untilOrder(order, "pending_payment", other);
  await withPage(`/sale?activity=${id}`, async (page) => {
    await signInOn(page, unique("zoe"));
    await untilSays(page, "buy", "Sold out");
    assert.equal(await part(page, "buy").isDisabled(), true);
    await call("POST", `/api/orders/${order}/cancel`, { token: other.token, body: {} });
    await untilButton(page, "enabled");
    await part(page, "buy").click();
    await page.waitForURL(/\/order\?/);
  });
});

test("a refusal explains itself and ends the attempt", async () => {
  const { id } = await publish({ total: 1 });
  await withPage(`/sale?activity=${id}`, async (page) => {
    await signInOn(page, unique("max"));
    await untilButton(page, "enabled");
    // The page's copy of the gate is older than this sale of the last unit.
    await page.route(/gate\.json$/, async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, json: { ...(await answer.json()), sold_out: [] } });
    });
    await reserve(id, await signIn());
    let requests = 0;
    page.on("request", (request) => (requests += request.url().endsWith("/orders") ? 1 : 0));
    const button = await listenTo(part(page, "buy"));
    await part(page, "buy").click();
    await untilSays(page, "notice", "This item is sold out");
    await button.says("Sold out");
    assert.equal(requests, 1);
  });
});

test("who has bought as much as one may is told so", async () => {
  const { id } = await publish({ perUser: 1 });
  const user = unique("jan");
  await reserve(id, await signIn(user));
  await withPage(`/sale?activity=${id}`, async (page) => {
    await signInOn(page, user);
    await untilButton(page, "enabled");
    await part(page, "buy").click();
    await untilSays(page, "notice", "as many of this item as one person may have");
    await part(page, "notice").getByRole("link", { name: "My orders" }).waitFor();
  });
});

test("a paused sale stays calm and goes on by itself", async () => {
  const { id } = await publish();
  await operate("POST", `/activities/${id}/pause`, {});
  await withPage(`/sale?activity=${id}`, async (page) => {
    await untilSays(page, "buy", "Paused");
    await part(page, "paused").filter({ visible: true }).waitFor();
    await operate("POST", `/activities/${id}/resume`, {});
    await untilButton(page, "enabled");
    assert.equal(await part(page, "paused").isVisible(), false);
  });
});

test("one look at the gate that finds nothing is not the last one", async () => {
  const { id } = await publish();
  await withPage(`/sale?activity=${id}`, async (page) => {
    await part(page, "buy").waitFor();
    const missing = await listenTo(page.locator("#missing"));
    await page.route(/gate\.json$/, (route) => route.fulfill({ status: 404, json: { status: 404, code: "not_found" } }), {
      times: 2,
    });
    await missing.says("There is no such sale");
    await operate("POST", `/activities/${id}/pause`, {});
    await untilSays(page, "buy", "Paused");
    assert.equal(await page.locator("#missing").isVisible(), false);
  });
});

test("while load is shed a click waits, and is served afterwards without another", async () => {
  const { id } = await publish();
  await withPage(`/sale?activity=${id}`, async (page) => {
    await signInOn(page, unique("uwe"));
    await untilButton(page, "enabled");
    await page.locator("#steps").waitFor({ state: "hidden" });
    await operate("PUT", "/shed", { on: true });
    try {
      await withPage("/admin", async (desk) => {
        await enterAsOperator(desk);
        assert.equal(await part(desk, "shed").isChecked(), true);
      });
      await page.reload();
      await untilButton(page, "enabled");
      await part(page, "buy").click();
      await untilSays(page, "notice", "Very many people are here");
    } finally {
      await operate("PUT", "/shed", { on: false });
    }
    await page.waitForURL(/\/order\?/);
  });
});

test("an ended sale and an unknown one say so", async () => {
  const { id } = await publish({ startsIn: -10_000, lasts: 9_000 });
  await withPage(`/sale?activity=${id}`, async (page) => {
    await untilSays(page, "countdown", "This sale has ended");
    assert.equal(await part(page, "buy").isDisabled(), true);
    await page.goto(`/sale?activity=${unique("nothing")}`);
    await page.getByRole("heading", { name: "There is no such sale." }).waitFor();
  });
});
