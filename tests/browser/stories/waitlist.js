// Stories of buyers who come when nothing is left, and wait for a unit (H1).

import { call, callAdmin, changeSale, eventually, orderOf, publish, reserve, signIn, stock, sweep, unique, untilOrder } from "../support/app.js";
import { accessibilityViolations } from "../support/axe.js";
import { changeAnswers, clickAndConfirm, deskOf, editorOf, enterName, openDesk, payNow, saveSale, signInOnPage, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

const LINE = { mode: "waitlist", max_units: 5, offer_seconds: 120 };

/** Publishes a sale whose only unit is taken. Resolves to its id, and to the order and the buyer that have the unit. */
async function soldOut(changes) {
  const { id } = await publish({ total: 1, line: LINE, ...changes });
  return { id, ...(await orderOf(id)) };
}

const cancel = (order, { token }) => call("POST", `/api/orders/${order}/cancel`, { token, body: {} });

/** Joins the line. Resolves to the buyer and the number of the entry. */
async function join(id, user) {
  const buyer = await signIn(user);
  const entry = await reserve(id, buyer);
  expect(entry.status).toBe("waiting");
  return { buyer, entry: entry.order_no };
}

/** Opens the page of an entry as its buyer. */
async function openEntry(page, id) {
  const { buyer, entry } = await join(id);
  await page.addInitScript((token) => localStorage.setItem("stampede.token", token), buyer.token);
  await page.goto(`/order?order_no=${entry}`);
  await untilText(page, "ahead", /./);
  return { buyer, entry };
}

for (const locale of ["en-GB", "zh-CN"]) {
  test.describe(locale, () => {
    test.use({ locale });

    test(`a buyer joins the waitlist, sees their place, and pays at their turn (${locale})`, async ({ newPage, words }) => {
      const { id, buyer, order } = await soldOut();
      const first = await join(id);
      const page = await newPage(`/sale?activity=${id}`);
      const button = page.locator('[data-testid="buy"][data-action="join"]');
      await untilText(page, "buy", words["sign_in.join"]);
      await untilText(page, "outcome", words["line.title"]);
      const rule = words["line.rule"].split("{")[0];
      await untilText(page, "outcome", rule);
      await expect(page.locator("#rules")).toContainText(rule);
      await signInOnPage(page, unique("wai"));
      await expect(button).toHaveText(words["line.join"]);
      await untilText(page, "note", /\b1 (waiting|人候补中)/);
      await untilText(page, "left", words["line.waiting"].replace("{waiting}", "1"));
      expect(await accessibilityViolations(page), "the sale").toEqual([]);
      await button.click();
      await page.waitForURL(/\/order\?/);
      await untilText(page, "headline", words["order.waiting"]);
      await untilText(page, "order", rule);
      await untilText(page, "ahead", words["order.place"].replace("{ahead}", "1"));
      expect(await accessibilityViolations(page), "the place").toEqual([]);
      await cancel(first.entry, first.buyer);
      await untilText(page, "ahead", words["order.first"]);
      await cancel(order, buyer);
      await untilText(page, "headline", words["order.yours_for"].split("{")[0]);
      await untilText(page, "order", words["order.your_turn"]);
      await payNow(page, words["order.paid"]);
      expect(await stock(id)).toMatchObject({ left: 0, sold: 1, waiting: 0 });
    });
  });
}

test("a buyer leaves the waitlist after confirming, and the button of the sale leads to their place until then", async ({ page }) => {
  const { id } = await soldOut();
  const { buyer } = await openEntry(page, id);
  await page.evaluate((key) => localStorage.setItem(key, ""), `stampede.has_ordered.${id}`);
  await page.goto(`/sale?activity=${id}`);
  await untilText(page, "to-pay", "You are on the waitlist.");
  await page.getByTestId("buy").click();
  await untilText(page, "headline", "You are on the waitlist");
  await expect(page.getByTestId("user")).toHaveText(buyer.user);
  await page.getByTestId("cancel").click();
  await page.getByTestId("dialog-no").click();
  await untilText(page, "ahead", "You are first in line");
  await clickAndConfirm(page, "cancel");
  await untilText(page, "headline", "You left the waitlist");
  expect(await stock(id)).toMatchObject({ waiting: 0 });
  await page.getByTestId("nav-orders").click();
  await untilText(page, "order-link", "Left the waitlist");
});

test("a buyer who leaves when a unit was just offered keeps it", async ({ page }) => {
  const { id, buyer, order } = await soldOut();
  let knowsOffer = false;
  await changeAnswers(page, /\/api\/orders\/[^/]+$/, (shown) => (knowsOffer ? shown : { ...shown, status: "waiting", ahead: 0 }), {});
  const { buyer: waiting, entry } = await openEntry(page, id);
  await cancel(order, buyer);
  await untilOrder(entry, "pending_payment", waiting, sweep);
  await page.getByTestId("cancel").click();
  knowsOffer = true;
  await page.getByTestId("dialog-yes").click();
  await untilText(page, "headline", "It’s yours for");
  expect(await stock(id)).toMatchObject({ held: 1, waiting: 0 });
});

test("My orders and the sale show the place of a buyer who waits, where it is known", { tag: "@phone" }, async ({ page, words }) => {
  const { id } = await soldOut();
  let ahead = 12;
  await changeAnswers(page, /\/api\/orders(\?|\/)/, (shown) => (shown.items ? { ...shown, items: shown.items.map((order) => ({ ...order, ahead })) } : { ...shown, ahead }), {});
  const { entry } = await openEntry(page, id);
  const place = words["order.place"].replace("{ahead}", "12");
  await page.goto("/orders");
  await untilText(page, "order-link", place);
  await page.evaluate((key) => localStorage.setItem(key, ""), `stampede.has_ordered.${id}`);
  await page.goto(`/sale?activity=${id}`);
  await untilText(page, "to-pay-text", place);
  const box = () => page.locator(".action-bar-note").evaluate((node) => [node.scrollHeight - node.clientHeight, node.getBoundingClientRect().y]);
  const before = await box();
  ahead = undefined;
  await page.reload();
  await expect(page.getByTestId("to-pay-text")).toContainText(words["bar.waiting"]);
  await expect(page.getByTestId("to-pay-text")).toContainText(words["order.place_kept"]);
  expect(await box()).toEqual(before);
  await page.goto("/orders");
  await untilText(page, "order-link", words["status.waiting"]);
  await expect(page.getByTestId("order-link")).not.toContainText(words["order.place"].split("{")[0]);
  await page.getByTestId("order-link").click();
  await page.waitForURL(`**/order?order_no=${entry}`);
});

test("a buyer who still waits at the end is told that the sale has ended", async ({ page }) => {
  const { id } = await soldOut();
  await openEntry(page, id);
  await callAdmin("POST", `/activities/${id}/close`);
  await untilText(page, "headline", "The drop has ended");
  await untilText(page, "order", "No unit came back for you in time.");
});

test("an offer that is not paid in time goes to the next, and says so", async ({ page }) => {
  const { id, buyer, order } = await soldOut({ line: { ...LINE, offer_seconds: 5 } });
  await openEntry(page, id);
  const next = await join(id);
  await cancel(order, buyer);
  await untilText(page, "headline", "It’s yours for");
  await untilText(page, "headline", "Time’s up");
  await untilText(page, "order", "it goes to the next person");
  await untilOrder(next.entry, "pending_payment", next.buyer, sweep);
});

test("a buyer whose sign-in cannot be renewed is asked to sign in again while they wait", async ({ page }) => {
  const { id } = await soldOut();
  const { buyer } = await openEntry(page, id);
  await expect(page.getByTestId("renew")).toBeHidden();
  await page.evaluate(() => localStorage.setItem("stampede.renew_at", String(Date.now() - 60_000)));
  await page.getByTestId("renew").click();
  await enterName(page, buyer.user);
  await expect(page.getByTestId("renew")).toBeHidden();
  await untilText(page, "headline", "You are on the waitlist");
});

test("a page that thinks there are units offers to wait for one, where a reservation of more is refused", async ({ page }) => {
  const { id } = await publish({ total: 2, perUser: 2, line: LINE });
  await page.goto(`/sale?activity=${id}`);
  await signInOnPage(page, unique("two"));
  await page.getByTestId("more").click();
  await untilText(page, "buy", "Buy 2");
  await page.route(/\/api\/activities\/[^/]+$/, (route) => route.abort());
  await Promise.all([orderOf(id), orderOf(id)]);
  await page.getByTestId("buy").click();
  await expect(page.locator('[data-testid="buy"][data-action="join"]')).toBeEnabled();
});

test("an operator sets up a waitlist, and sees how many wait and what is to be offered", async ({ page }) => {
  const { id } = await publish({ total: 1 });
  await openDesk(page, editorOf(id));
  await page.getByTestId("step-rules").click();
  await expect(page.getByTestId("f-line-units")).toBeHidden();
  await page.getByTestId("f-line").selectOption("waitlist");
  await page.getByTestId("f-line-units").fill("0");
  await page.getByTestId("f-offer").fill("10");
  await page.getByTestId("f-save").click();
  await expect(page.locator(".complaint", { hasText: "1 to 100,000" })).toBeVisible();
  await page.getByTestId("f-line-units").fill("2");
  await saveSale(page);
  const { line } = await callAdmin("GET", `/activities/${id}`);
  expect(line).toEqual({ mode: "waitlist", max_units: 2, offer_seconds: 600 });
  await expect(page.locator("#settings")).toContainText("A waitlist");
  await orderOf(id);
  await eventually("somebody waiting", async () => {
    const { status } = await reserve(id, await signIn()).catch(() => ({}));
    return { done: status === "waiting", value: status };
  });
  await expect(page.locator('[data-testid="stock-item"] [data-label="On the waitlist"]')).toHaveText("1");
  await expect(page.locator('[data-testid="stock-item"] [data-label="To be offered"]')).toHaveText("0");
  await page.getByTestId("close").click();
  await expect(page.getByRole("dialog")).toContainText("The waitlist ends, too: 1 waiting.");
  await page.getByTestId("dialog-no").click();
  await page.getByTestId("audit").click();
  await untilText(page, "audit-result", "no unit is free while a buyer is on the waitlist");
  // It stays on while somebody waits.
  await page.goto(editorOf(id));
  await page.getByTestId("step-rules").click();
  await page.getByTestId("f-line").selectOption("none");
  await page.getByTestId("f-save").click();
  await untilText(page, "form-trouble", "it cannot be switched off");
});

/** The desk's search for a user, once the ledger knows that they wait. */
async function searchOf(user) {
  await eventually("the entry in the ledger", async () => {
    const { line } = await callAdmin("GET", `/users/${user}`);
    return { done: line.length === 1, value: line };
  });
  return `/admin/orders?${new URLSearchParams({ q: user })}`;
}

test("an operator finds a buyer who waits, and removes them from the waitlist, with a reason", async ({ page }) => {
  const { id, buyer, order } = await soldOut();
  const { buyer: waiting, entry } = await join(id);
  await openDesk(page, await searchOf(waiting.user));
  const row = page.getByTestId("entry-row");
  await expect(row).toContainText(waiting.user);
  await expect(row).toContainText("Waiting");
  expect(await accessibilityViolations(page)).toEqual([]);
  await page.getByTestId("order-remove").click();
  await page.getByTestId("dialog-yes").click();
  await expect(page.getByTestId("ask-reason"), "a reason is needed").toBeFocused();
  await page.getByTestId("ask-reason").fill("A second account");
  await page.getByTestId("dialog-yes").click();
  await expect(row).toContainText("Cancelled");
  await expect(page.getByTestId("order-remove")).toBeHidden();
  await row.getByRole("link").click();
  await untilText(page, "timeline", "Joined the waitlist");
  await untilText(page, "timeline", "The wait ended taken off the waitlist by an operator");
  expect(await call("GET", `/api/orders/${entry}`, { token: waiting.token })).toMatchObject({ status: "cancelled", reason: "removed_by_operator" });
  await page.goto("/admin/changes");
  await expect(page.getByTestId("change").filter({ hasText: entry })).toContainText("A second account");

  const next = await join(id);
  await page.goto(await searchOf(next.buyer.user));
  await page.getByTestId("order-remove").click();
  await page.getByTestId("ask-reason").fill("Too late");
  await cancel(order, buyer);
  await untilOrder(next.entry, "pending_payment", next.buyer, sweep);
  await page.getByTestId("dialog-yes").click();
  await untilText(page, "order-status", "To be paid");
});

test("a sale without a waitlist shows nothing of it", async ({ page }) => {
  const { id } = await publish({ total: 1 });
  await openDesk(page, deskOf(id));
  await expect(page.getByTestId("stock-item")).toBeVisible();
  for (const text of ["To be offered", "Offered to the waitlist"]) await expect(page.getByText(text)).toBeHidden();
  await page.getByTestId("close").click();
  await expect(page.getByRole("dialog")).not.toContainText("waitlist");
  await page.getByTestId("dialog-no").click();
  await changeSale(id, { line: LINE });
  for (const text of ["To be offered", "Offered to the waitlist"]) await expect(page.getByText(text).first()).toBeVisible();
});
