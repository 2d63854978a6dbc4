// Stories of an operator: the list of sales, and the page of a sale (G2).

import {
  call, callAdmin, changeSale, copyAsDraft, eventually, operatorToken, publish, reserve, send, signIn, unique, untilOrder, untilPhase,
} from "../support/app.js";
import { changeAnswers, clickAndConfirm, deskOf, openDesk, saveSale, signInAsOperator, unfold, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

test("a wrong token is refused", async ({ page }) => {
  await page.goto("/admin");
  await page.getByTestId("admin-token").fill("not-the-token");
  await page.getByTestId("admin-enter").click();
  await untilText(page, "notice", "not the right one");
  await expect(page.getByTestId("new-sale")).toHaveCount(0);
});

test("the list of sales is asked for by its tag, and shows a new one", async ({ newPage }) => {
  await publish();
  const page = await newPage("/admin");
  // Other stories may change the list between any two requests.
  const [tags, asked] = [new Set(), new Set()];
  page.on("response", async (response) => {
    if (!response.url().endsWith("/api/admin/activities")) return;
    tags.add(await response.headerValue("etag"));
    asked.add(await response.request().headerValue("if-none-match"));
  });
  await signInAsOperator(page);
  await eventually("a request with the tag of an answer", () => {
    const value = [...asked].filter((tag) => tag && tags.has(tag));
    return { done: value.length > 0, value };
  });
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

test("a new operator creates, publishes, watches, restocks, pauses and closes a sale", async ({ page }) => {
  const title = unique("Summer");
  await openDesk(page);
  await page.getByTestId("new-sale").click();
  await page.getByTestId("preset-tickets").click();
  await page.getByTestId("f-title").fill(title);
  const fields = { name: "Seat", price: "19.99", total: "12" };
  for (const [name, text] of Object.entries(fields)) await page.getByTestId(`f-sku-${name}`).fill(text);
  await page.getByTestId("next").click();
  await expect(page.getByTestId("when-summary")).toContainText(/Starts in \d+ minutes and lasts (1 hour|60 minutes)/);
  const past = new Date(Date.now() - 60_000);
  await page.getByTestId("f-starts").fill(new Date(past - past.getTimezoneOffset() * 60_000).toISOString().slice(0, 16));
  await saveSale(page);
  const id = new URL(page.url()).searchParams.get("id");
  expect(id).toBe(title.toLowerCase());
  await untilText(page, "state", "Draft");
  for (const line of ["opens at once", "It has no picture", "Payment is the sandbox", "It has a human check"]) await untilText(page, "checks", line);

  await page.getByTestId("publish").click();
  await expect(page.getByRole("dialog")).toContainText("Payment is the sandbox");
  await page.getByTestId("dialog-yes").click();
  await untilText(page, "state", "Open, 0 % sold");
  await untilText(page, "live-phase", /^Ends in \d/);
  await untilText(page, "left", "12");
  await page.getByTestId("restock-seat").click();
  await page.getByTestId("ask-by").fill("5");
  await untilText(page, "dialog-outcome", "12 → 17");
  await page.getByTestId("dialog-yes").click();
  await untilText(page, "left", "17");
  await untilText(page, "marks", "restocked by admin");

  await clickAndConfirm(page, "pause");
  await untilText(page, "state", "Paused");
  await expect(page.getByTestId("change").first()).toContainText(`admin paused ${id}`);
  await clickAndConfirm(page, "resume");
  await untilText(page, "state", "Open");
  await page.getByTestId("close").click();
  await expect(page.getByTestId("dialog-yes")).toBeDisabled();
  await page.getByTestId("ask-title").fill(title);
  await page.getByTestId("dialog-yes").click();
  await untilText(page, "state", "Ended");
  for (const action of ["pause", "close"]) await expect(page.getByTestId(action)).toHaveCount(0);
  await untilPhase(id, { phases: ["ended"] });
});

test("the list says the state of each sale in words, and shows those of one state, or with a word", async ({ page }) => {
  const word = unique("word");
  const draft = await copyAsDraft((await publish()).id, { title: `A draft, ${word}` });
  const { id: later } = await publish({ startsIn: 7_230_000, title: `Later, ${word}` });
  const { id: open } = await publish({ title: `Open, ${word}` });
  const { id: paused } = await publish({ title: `Paused, ${word}` });
  await callAdmin("POST", `/activities/${paused}/pause`);
  const { id: held } = await publish({ total: 1, title: `Held, ${word}` });
  await reserve(held, await signIn());
  await openDesk(page);
  await page.getByTestId("search").fill(word);
  const states = { [draft]: "Draft", [later]: "Scheduled in 2 hours", [open]: "Open, 0 % sold", [paused]: "Paused", [held]: "None left, 1 to be paid" };
  for (const [id, text] of Object.entries(states)) await untilText(page, `state-${id}`, text);
  const rows = page.getByTestId("admin-sales").locator("li");
  await expect(rows).toHaveCount(5);
  for (const [filter, ids] of [["draft", [draft]], ["scheduled", [later]], ["now", [open, paused, held]], ["ended", []]]) {
    await page.getByTestId(`filter-${filter}`).click();
    await expect(rows).toHaveCount(ids.length);
    for (const id of ids) await expect(page.getByTestId(`row-${id}`)).toBeVisible();
  }
  await page.getByTestId("filter-draft").click();
  await page.reload();
  await page.getByTestId("search").fill(word);
  await expect(rows).toHaveCount(1);
  await rows.getByRole("link").click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(`A draft, ${word}`);
});

test("the page of a sale follows it, and the audit finds no drift", async ({ page }) => {
  const { id } = await publish({ total: 10 });
  await openDesk(page, deskOf(id));
  await untilText(page, "stock-item", /item\s*10\s*10\s*0\s*0/);
  const buyer = await signIn();
  const { order_no: order } = await reserve(id, buyer);
  await untilText(page, "stock-item", /item\s*10\s*9\s*1\s*0/);
  await untilOrder(order, "pending_payment", buyer);
  await expect(page.getByTestId("order-row")).toContainText(buyer.user);
  await page.getByTestId("audit").click();
  await untilText(page, "audit-verdict", "Every invariant holds");
  // The result is where it was asked for.
  await expect(page.getByTestId("audit-verdict")).toBeInViewport();
  const { start_key: old } = await call("GET", `/api/activities/${id}/gate.json`);
  await clickAndConfirm(page, "rotate");
  await eventually("a new start key", async () => {
    const { start_key: value } = await call("GET", `/api/activities/${id}/gate.json`);
    return { done: value && value !== old, value };
  });
});

test("the name, the state and Pause of a sale stay on the screen", { tag: "@phone" }, async ({ page }) => {
  const { id } = await publish();
  await openDesk(page, deskOf(id));
  await page.getByTestId("close").scrollIntoViewIfNeeded();
  for (const part of ["state", "live-phase", "pause"]) await expect(page.getByTestId(part)).toBeInViewport();
  // A finger that means Pause does not reach Close.
  await page.evaluate(() => scrollTo(0, 0));
  await expect(page.getByTestId("close")).not.toBeInViewport();
});

test("changes are told in words, with what was before, without a reload", async ({ page }) => {
  const { id } = await publish({ total: 10 });
  await openDesk(page, deskOf(id));
  const [spec] = (await callAdmin("GET", `/activities/${id}`)).skus;
  await changeSale(id, { title: "Better", skus: [{ ...spec, price: 1_799 }], pay_timeout_seconds: 600 });
  await callAdmin("PUT", `/activities/${id}/announcement`, { en: "We restock at 8" });
  const changes = page.getByTestId("changes");
  for (const text of [
    "admin changed the price of item from €19.99 to €17.99", "to “Better”", "admin changed the time to pay from 5 minutes to 10 minutes", "We restock at 8",
  ]) await expect(changes).toContainText(text);
  await page.goto("/admin/changes");
  await expect(page.getByTestId("changes")).toContainText("the price of item from €19.99 to €17.99");
});

test("an operator sees what another operator does, and how long the sale lasts", async ({ page, newPage }) => {
  const { id } = await publish();
  await openDesk(page, deskOf(id));
  await untilText(page, "live-phase", /^Ends in 0\d:\d\d$/);
  const other = await newPage(deskOf(id));
  await signInAsOperator(other);
  await clickAndConfirm(other, "pause");
  await untilText(page, "state", "Paused");
  await expect(page.getByTestId("resume")).toBeVisible();
});

test("a button of the stock table keeps the focus while the figures change", async ({ page }) => {
  const { id } = await publish({ total: 10 });
  await openDesk(page, deskOf(id));
  await page.getByTestId("restock-item").focus();
  await reserve(id, await signIn());
  await untilText(page, "stock-item", /item\s*10\s*9\s*1\s*0/);
  await expect(page.getByTestId("restock-item")).toBeFocused();
});

test("the reservations per second count orders whose units were released at once", async ({ page }) => {
  const { id } = await publish({ total: 10 });
  // Two answers, a second apart: meanwhile a thousand orders were made, and as many released.
  let enqueued = 1_000;
  await changeAnswers(page, /\/stats$/, (stats) => ({ ...stats, enqueued: (enqueued += 1_000) }));
  await openDesk(page, deskOf(id));
  await expect(page.getByTestId("reservations-per-second")).toHaveText(/^[\d,]{3,5}$/);
});

test("an operator copies a sale, and deletes the copy", async ({ page }) => {
  const { id } = await publish({ per_user: 3, total: 7 });
  const copy = unique("copy");
  await openDesk(page, deskOf(id));
  await expect(page.getByTestId("pause")).toBeVisible();
  await expect(page.getByTestId("delete")).toHaveCount(0);
  await page.getByTestId("copy").click();
  await page.getByTestId("f-title").fill(copy);
  await saveSale(page);
  await untilText(page, "state", "Draft");
  const [first, second] = await Promise.all([id, copy].map((name) => callAdmin("GET", `/activities/${name}`)));
  const duration = ({ starts_at: start, ends_at: end }) => Date.parse(end) - Date.parse(start);
  const rest = ({ id: _, title: __, state: ___, version: ____, starts_at: _____, ends_at: ______, ...others }) => others;
  expect([rest(second), duration(second)]).toEqual([rest(first), duration(first)]);
  expect(Date.parse(second.starts_at)).toBeGreaterThan(Date.now());
  await page.getByTestId("delete").click();
  await page.getByTestId("dialog-no").click();
  await clickAndConfirm(page, "delete");
  await page.waitForURL(/\/admin$/);
  expect((await send("GET", `/api/admin/activities/${copy}`, { token: operatorToken() })).status).toBe(404);
});

test("an operator rehearses a sale with a copy that is not listed, and deletes it once it is closed", async ({ page }) => {
  const { id } = await publish();
  const copy = unique("rehearsal");
  await openDesk(page, `/admin/edit?copy=${id}`);
  await page.getByTestId("f-title").fill(copy);
  await unfold(page, "what");
  await page.getByTestId("f-rehearsal").check();
  await saveSale(page);
  await expect(page.getByTestId("rehearsal")).toHaveText("Rehearsal");
  for (const action of ["publish", "close"]) await callAdmin("POST", `/activities/${copy}/${action}`, {});
  const { items } = await call("GET", "/api/activities");
  expect(items.map((sale) => sale.id)).not.toContain(copy);
  await page.reload();
  await clickAndConfirm(page, "erase");
  await page.waitForURL(/\/admin$/);
  expect((await send("GET", `/api/admin/activities/${copy}`, { token: operatorToken() })).status).toBe(404);
});

test("pausing a sale and shedding load say what follows, and are confirmed first", async ({ page }) => {
  const { id } = await publish();
  await openDesk(page, deskOf(id));
  for (const [button, follows] of [["pause", "Nobody can reserve until you resume it"], ["shed", "Only paying, cancelling and looking at orders go on"]]) {
    await page.getByTestId(button).click();
    await expect(page.getByRole("dialog")).toContainText(follows);
    await page.keyboard.press("Escape");
    await expect(page.getByRole("dialog")).toHaveCount(0);
  }
  expect((await callAdmin("GET", `/activities/${id}`)).state).toBe("published");
  expect(await callAdmin("GET", "/shed")).toEqual({ on: false });
});

test("what an operator sees is in the language of the browser", async ({ newPage }) => {
  const { id } = await publish({ titles: { zh: "相机特卖" } });
  const page = await newPage(deskOf(id), { locale: "zh-CN" });
  await signInAsOperator(page);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("相机特卖");
  await untilText(page, "pause", "暂停");
  const english = () => page.evaluate(() => document.body.innerText.match(/\b(Pause|Sold|Left|Orders|Settings|Audit|undefined|null|(?!recovery\.md)[a-z]+\.[a-z_]+)\b/g));
  await expect.poll(english).toBeNull();
  await page.getByTestId("language").click();
  await untilText(page, "pause", "Pause");
});
