// Stories of an operator on the operator's page: sales, and how they go (G2).

import {
  call, callAdmin, eventually, operatorToken, publish, reserve, send, signIn, unique, untilOrder, untilPhase,
} from "../support/app.js";
import { changeAnswers, clickAndConfirm, openDesk, recordText, signInAsOperator, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

test("a wrong token is refused", async ({ page }) => {
  await page.goto("/admin");
  await page.getByTestId("admin-token").fill("not-the-token");
  await page.getByTestId("admin-enter").click();
  await untilText(page, "notice", "not the right one");
  await expect(page.getByTestId("new-sale")).toBeHidden();
});

test("the list of sales is sent again only when it has changed", async ({ newPage }) => {
  await publish();
  const page = await newPage("/admin");
  const lists = [];
  page.on("response", (response) => {
    if (response.url().endsWith("/api/admin/activities")) lists.push(response.status());
  });
  await signInAsOperator(page);
  await eventually("a list that has not changed", () => ({ done: lists.includes(304), value: lists }));
  const { id } = await publish();
  await expect(page.getByTestId(`row-${id}`)).toBeVisible();
});

test("an operator whose address nginx does not list is told so", async ({ page }) => {
  // nginx's answer to addresses that its configuration does not list.
  const body = { title: "Not found", status: 404, detail: "There is no such route.", code: "not_found" };
  await page.route("**/api/admin/**", (route) => route.fulfill({ status: 404, json: body }));
  await page.goto("/admin");
  await page.getByTestId("admin-token").fill("any");
  await page.getByTestId("admin-enter").click();
  await untilText(page, "notice", "This address may not reach the operators' routes: see deploy/README.md.");
  await expect(page.getByTestId("enter")).toBeVisible();
});

test("an operator creates a sale, corrects a mistake, publishes, pauses, resumes and closes it", async ({ page }) => {
  const id = unique("made");
  await openDesk(page);
  await page.getByTestId("new-sale").click();
  await page.getByTestId("f-id").fill(id);
  await page.getByTestId("f-title").fill("Made by hand");
  await page.getByTestId("f-sku-sku").fill("lamp");
  await page.getByTestId("f-sku-name").fill("Lamp");
  await page.getByTestId("f-sku-item").fill("Lights");
  await page.getByTestId("f-checkout").selectOption("none");
  await page.getByTestId("f-word-zh").fill("八点见");
  await page.getByTestId("f-sku-price").fill("19.99");
  await page.getByTestId("f-sku-total").fill("5");
  const ends = await page.getByTestId("f-ends").inputValue();
  await page.getByTestId("f-ends").fill(await page.getByTestId("f-starts").inputValue());
  await page.getByTestId("f-save").click();
  await expect(page.locator(".complaint", { hasText: "must be after starts_at" })).toBeVisible();
  await page.getByTestId("f-ends").fill(ends);
  await page.getByTestId("f-save").click();
  await untilText(page, `state-${id}`, "draft");
  const { skus, checkout, announcement } = await callAdmin("GET", `/activities/${id}`);
  expect(skus).toEqual([{ sku: "lamp", name: "Lamp", item: "Lights", image: "", price: 1_999, currency: "EUR", total: 5 }]);
  expect([checkout, announcement]).toEqual(["none", { zh: "八点见" }]);
  for (const [verb, state] of [["publish", "published"], ["pause", "paused"], ["resume", "published"]]) {
    await page.getByTestId(`${verb}-${id}`).click();
    if (verb === "pause") await page.getByTestId("dialog-yes").click();
    await untilText(page, `state-${id}`, state);
  }
  await untilPhase(id, { phases: ["scheduled"] });
  expect((await call("GET", `/api/activities/${id}`)).title).toBe("Made by hand");
  await clickAndConfirm(page, `close-${id}`);
  await untilText(page, `state-${id}`, "closed");
  await untilPhase(id, { phases: ["ended"] });
});

test("a typed price becomes the minor units of its currency, and is shown as it was typed", async ({ page }) => {
  const { id } = await publish();
  await openDesk(page);
  const edit = () => page.getByTestId(`edit-${id}`).click();
  const save = async () => {
    await page.getByTestId("f-save").click();
    await expect(page.getByTestId("f-save")).toBeHidden();
  };
  const prices = [["HUF", "45000.00", 4_500_000], ["IQD", "1.500", 1_500], ["ISK", "4500", 4_500], ["EUR", "1.15", 115]];
  for (const [currency, typed, price] of prices) {
    await edit();
    await page.getByTestId("f-sku-currency").fill(currency);
    await page.getByTestId("f-sku-price").fill(typed);
    await save();
    const [sku] = (await callAdmin("GET", `/activities/${id}`)).skus;
    expect([sku.currency, sku.price]).toEqual([currency, price]);
    await edit();
    await expect(page.getByTestId("f-sku-price")).toHaveValue(typed);
    await save();
  }
  await edit();
  await page.getByTestId("f-sku-price").fill("1.155");
  await page.getByTestId("f-save").click();
  await expect(page.locator(".complaint", { hasText: "EUR has 2 decimals" })).toBeVisible();
  await page.getByTestId("f-sku-currency").fill("JPY");
  await page.getByTestId("f-sku-price").fill("1.5");
  await page.getByTestId("f-save").click();
  await expect(page.locator(".complaint", { hasText: "JPY has no decimals" })).toBeVisible();
});

test("saving a sale without a change keeps every field", async ({ page }) => {
  const { id } = await publish({
    description: "Two\nlines", image: "https://example.org/a.png", pay_extension_seconds: 60, human_check: "captcha",
    max_wait_seconds: 7, min_difficulty: 3,
    eligibility: { members_only: true, min_level: 2, allow: ["ann", "Bob Example"], groups: ["vip"] }, refund_restocks: false,
    refund_window_seconds: 100_000, limits: { user: { count: 7, seconds: 9 }, ip: null },
  });
  const before = await callAdmin("GET", `/activities/${id}`);
  await openDesk(page);
  const notice = await recordText(page.getByTestId("notice"));
  await page.getByTestId(`edit-${id}`).click();
  await page.getByTestId("f-save").click();
  await notice.untilShown("is saved");
  const after = await callAdmin("GET", `/activities/${id}`);
  const seconds = (text) => Math.floor(Date.parse(text) / 1000);
  for (const time of ["starts_at", "ends_at"]) expect(seconds(after[time])).toBe(seconds(before[time]));
  const rest = ({ starts_at: _, ends_at: __, version: ___, ...others }) => others;
  expect(rest(after)).toEqual(rest(before));
});

test("the editor changes no name of an invited user, and says which one no sign-in token can have", async ({ page }) => {
  const { id } = await publish({ eligibility: { allow: ["ann"] } });
  const allow = async () => (await callAdmin("GET", `/activities/${id}`)).eligibility.allow;
  await openDesk(page);
  await page.getByTestId(`edit-${id}`).click();
  const list = page.getByLabel("Only these users, one on each line");
  for (const name of ["mallory\u00a0", " mallory", "mal\u200blory"]) {
    await list.fill(`ann\n\n${name}\n \n`);
    await page.getByTestId("f-save").click();
    await untilText(page, "form-trouble", "/eligibility/allow/1 must be visible characters");
    await expect(page.getByTestId("f-save")).toBeEnabled();
    expect(await allow()).toEqual(["ann"]);
    await list.fill("ann");
  }
  await list.fill("ann\n\nBob Example\n");
  await page.getByTestId("f-save").click();
  await expect(page.getByTestId("f-save")).toBeHidden();
  expect(await allow()).toEqual(["ann", "Bob Example"]);
});

test("visitors read what a sale is called in their language", async ({ page, newPage }) => {
  const skus = [{ sku: "item", name: "Lamp", names: { de: "Lampe" }, price: 1_999, currency: "EUR", total: 5 }];
  const { id } = await publish({ title: "Lamps", titles: { de: "Lampen" }, skus });
  await openDesk(page);
  await page.getByTestId(`edit-${id}`).click();
  const texts = { "title-zh": "台灯特卖", "description-zh": "只有五盏。", "sku-names-zh": "台灯" };
  for (const [name, text] of Object.entries(texts)) await page.getByTestId(`f-${name}`).fill(text);
  await page.getByTestId("f-save").click();
  await expect(page.getByTestId("f-save")).toBeHidden();
  const saved = await callAdmin("GET", `/activities/${id}`);
  expect([saved.titles, saved.descriptions, saved.skus[0].names]).toEqual([
    { de: "Lampen", zh: "台灯特卖" }, { zh: "只有五盏。" }, { de: "Lampe", zh: "台灯" },
  ]);

  await eventually("the new texts", async () => {
    const { titles } = await call("GET", `/api/activities/${id}`);
    return { done: titles.zh === "台灯特卖", value: titles };
  });
  for (const [locale, title, name] of [["zh-CN", "台灯特卖", "台灯"], ["en-GB", "Lamps", "Lamp"]]) {
    const visitor = await newPage(`/sale?activity=${id}`, { locale });
    await expect(visitor.locator("#title")).toHaveText(title);
    await expect(visitor.getByTestId("sku").locator("strong")).toHaveText(name);
    await visitor.goto("/");
    await expect(visitor.locator(`a[href$="${id}"] strong`)).toHaveText(title);
  }
});

test("an operator limits refunds, and is warned of a sale that buyers can empty for nothing", async ({ page }) => {
  const { id } = await publish();
  await openDesk(page);
  const [days, risk] = [page.getByTestId("f-refund-days"), page.getByTestId("f-refund-risk")];
  await page.getByTestId(`edit-${id}`).click();
  // The editor has opened: `uncheck` does not wait for a box that is not checked yet.
  await expect(page.getByTestId("f-restocks")).toBeChecked();
  await expect(risk).toBeEmpty();
  await page.getByTestId("f-restocks").uncheck();
  await expect(risk).toContainText("take every unit off sale");
  await days.fill("0");
  await expect(risk).toBeEmpty();
  await days.fill("1.5");
  await expect(risk).toContainText("take every unit off sale");
  await page.getByTestId("f-save").click();
  await untilText(page, "notice", "is saved");
  const { refund_restocks, refund_window_seconds } = await callAdmin("GET", `/activities/${id}`);
  expect([refund_restocks, refund_window_seconds]).toEqual([false, 129_600]);
  // Opened again, it says so at once.
  await page.getByTestId(`edit-${id}`).click();
  await expect(days).toHaveValue("1.5");
  await expect(risk).toContainText("take every unit off sale");
});

test("saving an editor that was opened before a restock does not undo the restock", async ({ page }) => {
  const { id } = await publish({ total: 10 });
  await openDesk(page);
  await page.getByTestId(`edit-${id}`).click();
  await page.getByTestId("f-title").fill("A better title");
  await callAdmin("POST", `/activities/${id}/skus/item/restock`, { by: 5, from: 10 });
  await page.getByTestId("f-save").click();
  await untilText(page, "form-trouble", "was changed since you read it");
  const { title, skus } = await callAdmin("GET", `/activities/${id}`);
  expect([title === "A better title", skus[0].total]).toEqual([false, 15]);
});

test("a new sale does not replace an existing one with the same id", async ({ page }) => {
  const { id } = await publish({ total: 10 });
  const before = await callAdmin("GET", `/activities/${id}`);
  await openDesk(page);
  await page.getByTestId("new-sale").click();
  const fields = { id, title: "Another", "sku-sku": "item", "sku-name": "Item", "sku-price": "1.00", "sku-total": "9" };
  for (const [name, value] of Object.entries(fields)) await page.getByTestId(`f-${name}`).fill(value);
  await page.getByTestId("f-save").click();
  await untilText(page, "form-trouble", "There is a sale of this name");
  expect(await callAdmin("GET", `/activities/${id}`)).toEqual(before);
});

test("the live statistics follow the sale, and the audit finds no drift", async ({ page }) => {
  const { id } = await publish({ total: 10 });
  await openDesk(page);
  await page.getByTestId(`live-${id}`).click();
  await untilText(page, "stock-item", /item\s*10\s*10\s*0\s*0/);
  const buyer = await signIn();
  const { order_no: order } = await reserve(id, buyer);
  await untilText(page, "stock-item", /item\s*10\s*9\s*1\s*0/);
  await untilOrder(order, "pending_payment", buyer);
  await page.getByTestId("restock-item").click();
  await page.getByTestId("restock-by").fill("5");
  await page.getByTestId("restock-send").click();
  await untilText(page, "stock-item", /item\s*15\s*14\s*1\s*0/);
  await page.getByTestId("audit").click();
  await untilText(page, "audit-verdict", "Every invariant holds");
  const { start_key: old } = await call("GET", `/api/activities/${id}/gate.json`);
  await clickAndConfirm(page, "rotate");
  await eventually("a new start key", async () => {
    const { start_key: value } = await call("GET", `/api/activities/${id}/gate.json`);
    return { done: value && value !== old, value };
  });
});

test("an operator sees what another operator does, and how long the sale lasts", async ({ page, newPage }) => {
  const { id } = await publish();
  await openDesk(page);
  await page.getByTestId(`live-${id}`).click();
  await untilText(page, "live-phase", /^Open, ends in 0\d:\d\d$/);
  const other = await newPage("/admin");
  await signInAsOperator(other);
  await clickAndConfirm(other, `pause-${id}`);
  await untilText(page, `state-${id}`, "paused");
  await untilText(page, "live-phase", /^Paused, ends in 0\d:\d\d$/);
  await expect(page.getByTestId(`row-${id}`)).toHaveClass("is-chosen");
});

test("a button of the stock table keeps the focus while the figures change", async ({ page }) => {
  const { id } = await publish({ total: 10 });
  await openDesk(page);
  await page.getByTestId(`live-${id}`).click();
  await page.getByTestId("restock-item").focus();
  await reserve(id, await signIn());
  await untilText(page, "stock-item", /item\s*10\s*9\s*1\s*0/);
  await expect(page.getByTestId("restock-item")).toBeFocused();
});

test("the reservations per second count orders whose units were released at once", async ({ page }) => {
  const { id } = await publish({ total: 10 });
  await openDesk(page);
  // Two answers, a second apart: meanwhile a thousand orders were made, and as many released.
  let enqueued = 1_000;
  await changeAnswers(page, /\/stats$/, (stats) => ({ ...stats, enqueued: (enqueued += 1_000) }));
  await page.getByTestId(`live-${id}`).click();
  await expect(page.getByTestId("reservations-per-second")).toHaveText(/^[\d,]{3,5}$/);
});

test("an operator copies a sale, and deletes the copy", async ({ page }) => {
  const { id } = await publish({ per_user: 3, total: 7 });
  const copy = unique("copy");
  await openDesk(page);
  await page.getByTestId(`copy-${id}`).click();
  await page.getByTestId("f-id").fill(copy);
  await page.getByTestId("f-save").click();
  await untilText(page, `state-${copy}`, "draft");
  const [first, second] = await Promise.all([id, copy].map((name) => callAdmin("GET", `/activities/${name}`)));
  const duration = ({ starts_at: start, ends_at: end }) => Date.parse(end) - Date.parse(start);
  const rest = ({ id: _, state: __, version: ___, starts_at: ____, ends_at: _____, ...others }) => others;
  expect([rest(second), duration(second)]).toEqual([rest(first), duration(first)]);
  expect(Date.parse(second.starts_at)).toBeGreaterThan(Date.now());
  await expect(page.getByTestId(`delete-${id}`)).toHaveCount(0);
  await page.getByTestId(`delete-${copy}`).click();
  await page.getByTestId("dialog-no").click();
  await clickAndConfirm(page, `delete-${copy}`);
  await expect(page.getByTestId(`row-${copy}`)).toHaveCount(0);
  const token = operatorToken();
  expect((await send("GET", `/api/admin/activities/${copy}`, { token })).status).toBe(404);
});

test("pausing a sale and shedding load are confirmed first", async ({ page }) => {
  const { id } = await publish();
  await openDesk(page);
  await page.getByTestId(`pause-${id}`).click();
  await page.getByTestId("dialog-no").click();
  await page.getByTestId("shed").click();
  await page.getByTestId("dialog-no").click();
  await expect(page.getByTestId("shed")).not.toBeChecked();
  expect((await callAdmin("GET", `/activities/${id}`)).state).toBe("published");
  expect(await callAdmin("GET", "/shed")).toEqual({ on: false });
});
