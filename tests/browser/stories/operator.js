// Stories of an operator on the operator's page (G2).

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  call, callAdmin, eventually, publish, reserve, signIn, sweep, unique, untilOrder, untilPhase,
} from "../support/app.js";
import { byTestId, recordText, signInAsOperator, untilText, withPage } from "../support/browser.js";

test("a wrong token is refused", async () => {
  await withPage("/admin", async (page) => {
    await byTestId(page, "admin-token").fill("not-the-token");
    await byTestId(page, "admin-enter").click();
    await untilText(page, "notice", "not the right one");
    assert.equal(await byTestId(page, "new-sale").isVisible(), false);
  });
});

test("an operator creates a sale, corrects a mistake, publishes, pauses, resumes and closes it", async () => {
  const id = unique("made");
  await withPage("/admin", async (page) => {
    await signInAsOperator(page);
    await byTestId(page, "new-sale").click();
    await byTestId(page, "f-id").fill(id);
    await byTestId(page, "f-title").fill("Made by hand");
    await byTestId(page, "f-sku-sku").fill("lamp");
    await byTestId(page, "f-sku-name").fill("Lamp");
    await byTestId(page, "f-sku-price").fill("19.99");
    await byTestId(page, "f-sku-total").fill("5");
    const ends = await byTestId(page, "f-ends").inputValue();
    await byTestId(page, "f-ends").fill(await byTestId(page, "f-starts").inputValue());
    await byTestId(page, "f-save").click();
    await page.locator(".complaint", { hasText: "must be after starts_at" }).waitFor();
    await byTestId(page, "f-ends").fill(ends);
    await byTestId(page, "f-save").click();
    await untilText(page, `state-${id}`, "draft");
    const { skus } = await callAdmin("GET", `/activities/${id}`);
    assert.deepEqual(skus, [{ sku: "lamp", name: "Lamp", image: "", price: 1_999, currency: "EUR", total: 5 }]);
    for (const [verb, state] of [["publish", "published"], ["pause", "paused"], ["resume", "published"]]) {
      await byTestId(page, `${verb}-${id}`).click();
      await untilText(page, `state-${id}`, state);
    }
    await untilPhase(id, { phases: ["scheduled"] });
    assert.equal((await call("GET", `/api/activities/${id}`)).title, "Made by hand");
    await byTestId(page, `close-${id}`).click();
    await byTestId(page, "dialog-yes").click();
    await untilText(page, `state-${id}`, "closed");
  });
  await untilPhase(id, { phases: ["ended"] });
});

test("saving a sale without a change keeps every field", async () => {
  const { id } = await publish({
    description: "Two\nlines", image: "https://example.org/a.png", pay_extension_seconds: 60, human_check: "captcha",
    max_wait_seconds: 7,
    eligibility: { members_only: true, min_level: 2, allow: ["ann", "Bob Example"] }, refund_restocks: false,
    limits: { user: { count: 7, seconds: 9 }, ip: null },
  });
  const before = await callAdmin("GET", `/activities/${id}`);
  await withPage("/admin", async (page) => {
    await signInAsOperator(page);
    const notice = await recordText(byTestId(page, "notice"));
    await byTestId(page, `edit-${id}`).click();
    await byTestId(page, "f-save").click();
    await notice.untilShown("is saved");
  });
  const after = await callAdmin("GET", `/activities/${id}`);
  const seconds = (text) => Math.floor(Date.parse(text) / 1000);
  for (const time of ["starts_at", "ends_at"]) assert.equal(seconds(after[time]), seconds(before[time]));
  const rest = ({ starts_at: _, ends_at: __, version: ___, ...others }) => others;
  assert.deepEqual(rest(after), rest(before));
});

test("saving an editor that was opened before a restock does not undo the restock", async () => {
  const { id } = await publish({ total: 10 });
  await withPage("/admin", async (page) => {
    await signInAsOperator(page);
    await byTestId(page, `edit-${id}`).click();
    await byTestId(page, "f-title").fill("A better title");
    await callAdmin("POST", `/activities/${id}/skus/item/restock`, { by: 5, from: 10 });
    await byTestId(page, "f-save").click();
    await untilText(page, "form-trouble", "was changed since you read it");
  });
  const { title, skus } = await callAdmin("GET", `/activities/${id}`);
  assert.deepEqual([title === "A better title", skus[0].total], [false, 15]);
});

test("a new sale does not replace an existing one with the same id", async () => {
  const { id } = await publish({ total: 10 });
  const before = await callAdmin("GET", `/activities/${id}`);
  await withPage("/admin", async (page) => {
    await signInAsOperator(page);
    await byTestId(page, "new-sale").click();
    const fields = { id, title: "Another", "sku-sku": "item", "sku-name": "Item", "sku-price": "1.00", "sku-total": "9" };
    for (const [name, value] of Object.entries(fields)) await byTestId(page, `f-${name}`).fill(value);
    await byTestId(page, "f-save").click();
    await untilText(page, "form-trouble", "There is a sale of this name");
  });
  assert.deepEqual(await callAdmin("GET", `/activities/${id}`), before);
});

test("the live statistics follow the sale, and the audit finds no drift", async () => {
  const { id } = await publish({ total: 10 });
  await withPage("/admin", async (page) => {
    await signInAsOperator(page);
    await byTestId(page, `live-${id}`).click();
    await untilText(page, "stock-item", /item\s*10\s*10\s*0\s*0/);
    const buyer = await signIn();
    const { order_no: order } = await reserve(id, buyer);
    await untilText(page, "stock-item", /item\s*10\s*9\s*1\s*0/);
    await untilOrder(order, "pending_payment", buyer);
    await byTestId(page, "restock-item").click();
    await byTestId(page, "restock-by").fill("5");
    await byTestId(page, "restock-send").click();
    await untilText(page, "stock-item", /item\s*15\s*14\s*1\s*0/);
    await byTestId(page, "audit").click();
    await untilText(page, "audit-verdict", "Every invariant holds");
    const { start_key: old } = await call("GET", `/api/activities/${id}/gate.json`);
    await byTestId(page, "rotate").click();
    await byTestId(page, "dialog-yes").click();
    await eventually("a new start key", async () => {
      const { start_key: value } = await call("GET", `/api/activities/${id}/gate.json`);
      return { done: value && value !== old, value };
    });
  });
});

test("an operator views and clears the strikes of a user", async () => {
  const { id } = await publish({ payTimeout: 1 });
  const buyer = await signIn();
  const { order_no: order } = await reserve(id, buyer);
  await eventually("a strike", async () => {
    await sweep();
    const value = await callAdmin("GET", `/strikes/${buyer.user}`);
    return { done: value.count === 1, value };
  });
  await untilOrder(order, "expired", buyer);
  await withPage("/admin", async (page) => {
    await signInAsOperator(page);
    await byTestId(page, "strikes-form").getByLabel("User").fill(buyer.user);
    await byTestId(page, "strikes-show").click();
    await page.locator("#strikes-result", { hasText: `${buyer.user}: 1 of 10 strikes` }).waitFor();
    const notice = await recordText(byTestId(page, "notice"));
    await byTestId(page, "strikes-clear").click();
    await notice.untilShown("has no strikes any more");
    await byTestId(page, "strikes-show").click();
    await page.locator("#strikes-result", { hasText: `${buyer.user}: 0 of 10 strikes` }).waitFor();
  });
});
