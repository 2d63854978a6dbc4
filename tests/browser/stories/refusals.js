// Refusals: sold out, limit per user, paused, load shedding, ended (A4, B9).

import assert from "node:assert/strict";
import { test } from "node:test";
import { call, callAdmin, publish, reserve, signIn, unique, untilOrder } from "../support/app.js";
import {
  byTestId, recordText, signInAsOperator, signInOnPage, untilBuyButton, untilText, withPage,
} from "../support/browser.js";

test("a sold-out SKU has a disabled button, and can be bought when a unit is released", async () => {
  const { id } = await publish({ total: 1 });
  const other = await signIn();
  const { order_no: order } = await reserve(id, other);
  await untilOrder(order, "pending_payment", other);
  await withPage(`/sale?activity=${id}`, async (page) => {
    await signInOnPage(page, unique("zoe"));
    await untilText(page, "buy", "Sold out");
    assert.equal(await byTestId(page, "buy").isDisabled(), true);
    await call("POST", `/api/orders/${order}/cancel`, { token: other.token, body: {} });
    await untilBuyButton(page, "enabled");
    await byTestId(page, "buy").click();
    await page.waitForURL(/\/order\?/);
  });
});

test("a refusal shows its reason and ends the attempt", async () => {
  const { id } = await publish({ total: 1 });
  await withPage(`/sale?activity=${id}`, async (page) => {
    await signInOnPage(page, unique("max"));
    await untilBuyButton(page, "enabled");
    // The page's copy of the gate is older than the reservation of the last unit.
    await page.route(/gate\.json$/, async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, json: { ...(await answer.json()), sold_out: [] } });
    });
    await reserve(id, await signIn());
    let requests = 0;
    page.on("request", (request) => (requests += request.url().endsWith("/orders") ? 1 : 0));
    const button = await recordText(byTestId(page, "buy"));
    await byTestId(page, "buy").click();
    await untilText(page, "notice", "This item is sold out");
    await button.untilShown("Sold out");
    assert.equal(requests, 1);
  });
});

test("a buyer at the limit per user is told so", async () => {
  const { id } = await publish({ perUser: 1 });
  const user = unique("jan");
  await reserve(id, await signIn(user));
  await withPage(`/sale?activity=${id}`, async (page) => {
    await signInOnPage(page, user);
    await untilBuyButton(page, "enabled");
    await byTestId(page, "buy").click();
    await untilText(page, "notice", "as many of this item as one person may have");
    await byTestId(page, "notice").getByRole("link", { name: "My orders" }).waitFor();
  });
});

test("a paused sale shows a notice and continues without a reload", async () => {
  const { id } = await publish();
  await callAdmin("POST", `/activities/${id}/pause`, {});
  await withPage(`/sale?activity=${id}`, async (page) => {
    await untilText(page, "buy", "Paused");
    await byTestId(page, "paused").filter({ visible: true }).waitFor();
    await callAdmin("POST", `/activities/${id}/resume`, {});
    await untilBuyButton(page, "enabled");
    assert.equal(await byTestId(page, "paused").isVisible(), false);
  });
});

test("a gate that is briefly missing is polled again", async () => {
  const { id } = await publish();
  await withPage(`/sale?activity=${id}`, async (page) => {
    await byTestId(page, "buy").waitFor();
    const missing = await recordText(page.locator("#missing"));
    await page.route(/gate\.json$/, (route) => route.fulfill({ status: 404, json: { status: 404, code: "not_found" } }), {
      times: 2,
    });
    await missing.untilShown("There is no such sale");
    await callAdmin("POST", `/activities/${id}/pause`, {});
    await untilText(page, "buy", "Paused");
    assert.equal(await page.locator("#missing").isVisible(), false);
  });
});

test("a click while load is shed waits, and succeeds afterwards without another click", async () => {
  const { id } = await publish();
  await withPage(`/sale?activity=${id}`, async (page) => {
    await signInOnPage(page, unique("uwe"));
    await untilBuyButton(page, "enabled");
    await page.locator("#steps").waitFor({ state: "hidden" });
    await callAdmin("PUT", "/shed", { on: true });
    try {
      await withPage("/admin", async (adminPage) => {
        await signInAsOperator(adminPage);
        assert.equal(await byTestId(adminPage, "shed").isChecked(), true);
      });
      await page.reload();
      await untilBuyButton(page, "enabled");
      await byTestId(page, "buy").click();
      await untilText(page, "notice", "Very many people are here");
    } finally {
      await callAdmin("PUT", "/shed", { on: false });
    }
    await page.waitForURL(/\/order\?/);
  });
});

test("an ended sale and an unknown sale each show a message", async () => {
  const { id } = await publish({ startsIn: -10_000, duration: 9_000 });
  await withPage(`/sale?activity=${id}`, async (page) => {
    await untilText(page, "countdown", "This sale has ended");
    assert.equal(await byTestId(page, "buy").isDisabled(), true);
    await page.goto(`/sale?activity=${unique("nothing")}`);
    await page.getByRole("heading", { name: "There is no such sale." }).waitFor();
  });
});
