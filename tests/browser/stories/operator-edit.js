// Stories of an operator in the editor of a sale (G2).

import { call, callAdmin, eventually, publish } from "../support/app.js";
import { editorOf, openDesk, saveSale, unfold, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

const complaint = (page, text) => expect(page.locator(".complaint", { hasText: text }).filter({ visible: true }).first()).toBeVisible();

test("each mistake is told at its field with what is right, all at once, and on the step where it is", async ({ page }) => {
  await openDesk(page, "/admin/edit");
  await page.getByTestId("f-image").fill("demo/camera.svg");
  await complaint(page, "Write /demo/camera.svg");
  await page.getByTestId("f-image").fill("/demo/camera.svg");
  await expect(page.locator(".thumb img")).toBeVisible();
  await page.getByTestId("f-title").fill("Camera");
  await unfold(page, "what");
  await page.getByTestId("f-id").fill("UX Camera");
  for (const [name, text] of Object.entries({ name: "Body", price: "1,899.00", total: "3" })) await page.getByTestId(`f-sku-${name}`).fill(text);
  await page.getByTestId("step-when").click();
  await page.getByTestId("f-ends").fill(await page.getByTestId("f-starts").inputValue());
  await page.getByTestId("step-rules").click();
  await page.getByTestId("f-per-user").fill("0");
  await page.getByTestId("f-save").click();
  await untilText(page, "form-trouble", "4 fields need a change.");
  await expect(page.getByTestId("f-id")).toBeFocused();
  await complaint(page, "such as spring-camera");
  await complaint(page, "1899.00, without a comma");
  await page.getByTestId("step-when").click();
  await complaint(page, "The end must be after the start.");
  await page.getByTestId("step-rules").click();
  await complaint(page, "A whole number, 1 or more.");
});

test("a sale whose title has no letters for an id gets one", async ({ page }) => {
  await openDesk(page, "/admin/edit");
  await page.getByTestId("f-title").fill("旁轴相机");
  for (const [name, text] of Object.entries({ name: "机身", price: "18.99", total: "3" })) await page.getByTestId(`f-sku-${name}`).fill(text);
  await saveSale(page);
  const id = new URL(page.url()).searchParams.get("id");
  expect(id).toMatch(/^sale-[0-9a-f]{6}$/);
  expect((await callAdmin("GET", `/activities/${id}`)).skus[0].sku).toBe("item-1");
});

test("what is typed stays in the tab until it is saved or discarded", async ({ page }) => {
  const { id } = await publish();
  await openDesk(page, editorOf(id));
  const title = page.getByTestId("f-title");
  await title.fill("Typed");
  await page.getByTestId("f-sku-name").fill("Another name");
  await page.keyboard.press("Escape");
  await expect(title).toHaveValue("Typed");
  await page.goto("/admin");
  await page.goto(editorOf(id));
  await expect(page.getByTestId("restored")).toBeVisible();
  await expect(title).toHaveValue("Typed");
  await expect(page.getByTestId("f-sku-name")).toHaveValue("Another name");
  await page.getByTestId("discard").click();
  await expect(title).not.toHaveValue("Typed");
  await title.fill("Saved");
  await saveSale(page);
  await page.goto(editorOf(id));
  await expect(title).toHaveValue("Saved");
  await expect(page.getByTestId("restored")).toBeHidden();
});

test("a typed price becomes the minor units of its currency, and is shown as it was typed", async ({ page }) => {
  const { id } = await publish();
  await openDesk(page);
  const edit = async () => {
    await page.goto(editorOf(id));
    await unfold(page, "item");
  };
  const prices = [["HUF", "45000.00", 4_500_000], ["IQD", "1.500", 1_500], ["ISK", "4500", 4_500], ["EUR", "1.15", 115]];
  for (const [currency, typed, price] of prices) {
    await edit();
    await page.getByTestId("f-sku-currency").fill(currency);
    await page.getByTestId("f-sku-price").fill(typed);
    await saveSale(page);
    const [sku] = (await callAdmin("GET", `/activities/${id}`)).skus;
    expect([sku.currency, sku.price]).toEqual([currency, price]);
    await edit();
    await expect(page.getByTestId("f-sku-price")).toHaveValue(typed);
  }
  await page.getByTestId("f-sku-price").fill("1.155");
  await page.getByTestId("f-save").click();
  await complaint(page, "a point before the cents");
  await page.getByTestId("f-sku-currency").fill("JPY");
  await page.getByTestId("f-sku-price").fill("1.5");
  await page.getByTestId("f-save").click();
  await complaint(page, "this currency has no cents");
});

test("saving a sale without a change keeps every field", async ({ page }) => {
  const { id } = await publish({
    description: "Two\nlines", image: "https://example.org/a.png", pay_extension_seconds: 60, human_check: "captcha",
    max_wait_seconds: 7, min_difficulty: 3,
    eligibility: { members_only: true, min_level: 2, allow: ["ann", "Bob Example"], groups: ["vip"] }, refund_restocks: false,
    refund_window_seconds: 100_000, limits: { user: { count: 7, seconds: 9 }, ip: null },
  });
  const before = await callAdmin("GET", `/activities/${id}`);
  await openDesk(page, editorOf(id));
  await saveSale(page);
  const after = await callAdmin("GET", `/activities/${id}`);
  const seconds = (text) => Math.floor(Date.parse(text) / 1000);
  for (const time of ["starts_at", "ends_at"]) expect(seconds(after[time])).toBe(seconds(before[time]));
  const rest = ({ starts_at: _, ends_at: __, version: ___, ...others }) => others;
  expect(rest(after)).toEqual(rest(before));
});

test("times are written in the unit that an operator thinks in", async ({ page }) => {
  const { id } = await publish({ payTimeout: 300, refund_window_seconds: 129_600 });
  await openDesk(page, editorOf(id));
  await unfold(page, "rules");
  for (const [field, number, unit] of [["pay-timeout", "5", "minutes"], ["refund", "36", "hours"]]) {
    await expect(page.getByTestId(`f-${field}`)).toHaveValue(number);
    await expect(page.getByTestId(`f-${field}-unit`)).toHaveValue(unit);
  }
  await page.getByTestId("f-pay-timeout").fill("1.5");
  await page.getByTestId("f-refund").fill("14");
  await page.getByTestId("f-refund-unit").selectOption("days");
  await saveSale(page);
  const { pay_timeout_seconds, refund_window_seconds } = await callAdmin("GET", `/activities/${id}`);
  expect([pay_timeout_seconds, refund_window_seconds]).toEqual([90, 1_209_600]);
});

test("the editor changes no name of an invited user, and says which one no sign-in token can have", async ({ page }) => {
  const { id } = await publish({ eligibility: { allow: ["ann"] } });
  const allow = async () => (await callAdmin("GET", `/activities/${id}`)).eligibility.allow;
  await openDesk(page, editorOf(id));
  await unfold(page, "who");
  const list = page.getByTestId("f-allow");
  for (const name of ["mallory\u00a0", " mallory", "mal\u200blory"]) {
    await list.fill(`ann\n\n${name}\n \n`);
    await page.getByTestId("f-save").click();
    await complaint(page, "Line 2: must be visible characters");
    expect(await allow()).toEqual(["ann"]);
    await list.fill("ann");
  }
  await list.fill("ann\n\nBob Example\n");
  await saveSale(page);
  expect(await allow()).toEqual(["ann", "Bob Example"]);
});

test("visitors read what a sale is called in their language", async ({ page, newPage }) => {
  const skus = [{ sku: "item", name: "Lamp", names: { de: "Lampe" }, price: 1_999, currency: "EUR", total: 5 }];
  const { id } = await publish({ title: "Lamps", titles: { de: "Lampen" }, skus });
  await openDesk(page, editorOf(id));
  for (const name of ["what", "item"]) await unfold(page, name);
  const texts = { "title-zh": "台灯特卖", "description-zh": "只有五盏。", "sku-names-zh": "台灯", "word-zh": "八点见" };
  for (const [name, text] of Object.entries(texts)) await page.getByTestId(`f-${name}`).fill(text);
  await saveSale(page);
  const saved = await callAdmin("GET", `/activities/${id}`);
  expect([saved.titles, saved.descriptions, saved.skus[0].names, saved.announcement]).toEqual([
    { de: "Lampen", zh: "台灯特卖" }, { zh: "只有五盏。" }, { de: "Lampe", zh: "台灯" }, { zh: "八点见" },
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

test("an operator is warned of a sale that buyers can empty for nothing", async ({ page }) => {
  const { id } = await publish();
  await openDesk(page, editorOf(id));
  await unfold(page, "rules");
  const [number, risk] = [page.getByTestId("f-refund"), page.getByTestId("f-refund-risk")];
  await expect(page.getByTestId("f-restocks")).toBeChecked();
  await expect(risk).toBeEmpty();
  await page.getByTestId("f-restocks").uncheck();
  await expect(risk).toContainText("take every unit off sale");
  await number.fill("0");
  await expect(risk).toBeEmpty();
  await number.fill("1.5");
  await expect(risk).toContainText("take every unit off sale");
  await saveSale(page);
  const { refund_restocks, refund_window_seconds } = await callAdmin("GET", `/activities/${id}`);
  expect([refund_restocks, refund_window_seconds]).toEqual([false, 129_600]);
});

test("saving an editor that was opened before a restock does not undo the restock", async ({ page }) => {
  const { id } = await publish({ total: 10 });
  await openDesk(page, editorOf(id));
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
  await openDesk(page, "/admin/edit");
  const fields = { title: id, "sku-name": "Item", "sku-price": "1.00", "sku-total": "9" };
  for (const [name, value] of Object.entries(fields)) await page.getByTestId(`f-${name}`).fill(value);
  await page.getByTestId("f-save").click();
  await untilText(page, "form-trouble", "There is a sale of this name");
  expect(await callAdmin("GET", `/activities/${id}`)).toEqual(before);
});
