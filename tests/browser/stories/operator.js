// The operator's page (G2).

import assert from "node:assert/strict";
import { test } from "node:test";
import { call, eventually, operate, publish, reserve, signIn, sweep, unique, untilOrder, untilPhase } from "../support/app.js";
import { enterAsOperator, listenTo, part, untilSays, withPage } from "../support/browser.js";

test("a wrong token opens nothing", async () => {
  await withPage("/admin", async (page) => {
    await part(page, "admin-token").fill("not-the-token");
    await part(page, "admin-enter").click();
    await untilSays(page, "notice", "not the right one");
    assert.equal(await part(page, "new-sale").isVisible(), false);
  });
});

test("an operator creates a sale, corrects a mistake, publishes, pauses, resumes and closes it", async () => {
  const id = unique("made");
  await withPage("/admin", async (page) => {
    await enterAsOperator(page);
    await part(page, "new-sale").click();
    await part(page, "f-id").fill(id);
    await part(page, "f-title").fill("Made by hand");
    await part(page, "f-sku-sku").fill("lamp");
    await part(page, "f-sku-name").fill("Lamp");
    await part(page, "f-sku-price").fill("19.99");
    await part(page, "f-sku-total").fill("5");
    const ends = await part(page, "f-ends").inputValue();
    await part(page, "f-ends").fill(await part(page, "f-starts").inputValue());
    await part(page, "f-save").click();
    await page.locator(".complaint", { hasText: "must be after starts_at" }).waitFor();
    await part(page, "f-ends").fill(ends);
    await part(page, "f-save").click();
    await untilSays(page, `state-${id}`, "draft");
    const { skus } = await operate("GET", `/activities/${id}`);
    assert.deepEqual(skus, [{ sku: "lamp", name: "Lamp", image: "", price: 1_999, currency: "EUR", total: 5 }]);
    for (const [verb, state] of [["publish", "published"], ["pause", "paused"], ["resume", "published"]]) {
      await part(page, `${verb}-${id}`).click();
      await untilSays(page, `state-${id}`, state);
    }
    await untilPhase(id, { among: ["scheduled"] });
    assert.equal((await call("GET", `/api/activities/${id}`)).title, "Made by hand");
    await part(page, `close-${id}`).click();
    await part(page, "dialog-yes").click();
    await untilSays(page, `state-${id}`, "closed");
  });
  await untilPhase(id, { among: ["ended"] });
});

test("saving a sale without a change keeps every field", async () => {
  const { id } = await publish({
    description: "Two\nlines", image: "https://example.org/a.png", pay_extension_seconds: 60, human_check: "captcha",
    max_wait_seconds: 7,
    eligibility: { members_only: true, min_level: 2, allow: ["ann", "Bob Example"] }, refund_restocks: false,
    limits: { user: { count: 7, seconds: 9 }, ip: null },
  });
  const before = await operate("GET", `/activities/${id}`);
  await withPage("/admin", async (page) => {
    await enterAsOperator(page);
    const notice = await listenTo(part(page, "notice"));
    await part(page, `edit-${id}`).click();
    await part(page, "f-save").click();
    await notice.says("is saved");
  });
  const after = await operate("GET", `/activities/${id}`);
  const seconds = (text) => Math.floor(Date.parse(text) / 1000);
  for (const time of ["starts_at", "ends_at"]) assert.equal(seconds(after[time]), seconds(before[time]));
  const rest = ({ starts_at: _, ends_at: __, version: ___, ...others }) => others;
  assert.deepEqual(rest(after), rest(before));
});

test("an editor that was open while somebody restocked does not undo it", async () => {
  const { id } = await publish({ total: 10 });
  await withPage("/admin", async (page) => {
    await enterAsOperator(page);
    await part(page, `edit-${id}`).click();
    await part(page, "f-title").fill("A better title");
    await operate("POST", `/activities/${id}/skus/item/restock`, { by: 5, from: 10 });
    await part(page, "f-save").click();
    await untilSays(page, "form-trouble", "was changed since you read it");
  });
  const { title, skus } = await operate("GET", `/activities/${id}`);
  assert.deepEqual([title === "A better title", skus[0].total], [false, 15]);
});

test("a new sale replaces none that has its name", async () => {
  const { id } = await publish({ total: 10 });
  const before = await operate("GET", `/activities/${id}`);
  await withPage("/admin", async (page) => {
    await enterAsOperator(page);
    await part(page, "new-sale").click();
    const fields = { id, title: "Another", "sku-sku": "item", "sku-name": "Item", "sku-price": "1.00", "sku-total": "9" };
    for (const [name, value] of Object.entries(fields)) await part(page, `f-${name}`).fill(value);
    await part(page, "f-save").click();
    await untilSays(page, "form-trouble", "There is a sale of this name");
  });
  assert.deepEqual(await operate("GET", `/activities/${id}`), before);
});

test("the live figures follow the sale, and the audit adds up", async () => {
  const { id } = await publish({ total: 10 });
  await withPage("/admin", async (page) => {
    await enterAsOperator(page);
    await part(page, `live-${id}`).click();
    await untilSays(page, "stock-item", /item\s*10\s*10\s*0\s*0/);
    const buyer = await signIn();
    const { order_no: order } = await reserve(id, buyer);
    await untilSays(page, "stock-item", /item\s*10\s*9\s*1\s*0/);
    await untilOrder(order, "pending_payment", buyer);
    await part(page, "restock-item").click();
    await part(page, "restock-by").fill("5");
    await part(page, "restock-send").click();
    await untilSays(page, "stock-item", /item\s*15\s*14\s*1\s*0/);
    await part(page, "audit").click();
    await untilSays(page, "audit-verdict", "Every invariant holds");
    const { start_key: old } = await call("GET", `/api/activities/${id}/gate.json`);
    await part(page, "rotate").click();
    await part(page, "dialog-yes").click();
    await eventually("a new start key", async () => {
      const { start_key: value } = await call("GET", `/api/activities/${id}/gate.json`);
      return { done: value && value !== old, value };
    });
  });
});

test("an operator sees the strikes of a user, and forgives them", async () => {
  const { id } = await publish({ payTimeout: 1 });
  const buyer = await signIn();
  const { order_no: order } = await reserve(id, buyer);
  await eventually("a strike", async () => {
    await sweep();
    const value = await operate("GET", `/strikes/${buyer.user}`);
    return { done: value.count === 1, value };
  });
  await untilOrder(order, "expired", buyer);
  await withPage("/admin", async (page) => {
    await enterAsOperator(page);
    await part(page, "strikes-form").getByLabel("User").fill(buyer.user);
    await part(page, "strikes-show").click();
    await page.locator("#strikes-result", { hasText: `${buyer.user}: 1 of 10 strikes` }).waitFor();
    const notice = await listenTo(part(page, "notice"));
    await part(page, "strikes-clear").click();
    await notice.says("has no strikes any more");
    await part(page, "strikes-show").click();
    await page.locator("#strikes-result", { hasText: `${buyer.user}: 0 of 10 strikes` }).waitFor();
  });
});
