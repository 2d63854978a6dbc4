// Stories of an operator on the operator's page: strikes, bans, orders and payments of buyers (G2).

import { Webhook } from "standardwebhooks";
import {
  ADDRESS, call, callAdmin, createOrder, eventually, publish, reserve, send, signIn, sweep, unique, untilOrder,
  url, webhookSecret,
} from "../support/app.js";
import {
  changeAnswers, clickAndConfirm, deskOf, editorOf, holdAnswers, openDesk, recordText, signInAsOperator, unfold, untilText,
} from "../support/page.js";
import { expect, test } from "../support/test.js";

test("an operator views and clears the strikes of a user", async ({ page }) => {
  const { id } = await publish({ payTimeout: 1 });
  const buyer = await signIn();
  const { order_no: order } = await reserve(id, buyer);
  await eventually("a strike", async () => {
    await sweep();
    const value = await callAdmin("GET", `/strikes/${buyer.user}`);
    return { done: value.count === 1, value };
  });
  await untilOrder(order, "expired", buyer);
  await openDesk(page, "/admin/buyers");
  await page.getByTestId("strikes-form").getByLabel("User").fill(buyer.user);
  await page.getByTestId("strikes-form").getByLabel("User").press("Enter");
  await expect(page.locator("#strikes-result", { hasText: `${buyer.user}: 1 of 10 strikes` })).toBeVisible();
  await page.getByTestId("strikes-clear").click();
  await page.getByTestId("dialog-no").click();
  expect((await callAdmin("GET", `/strikes/${buyer.user}`)).count).toBe(1);
  const notice = await recordText(page.getByTestId("notice"));
  await clickAndConfirm(page, "strikes-clear");
  await notice.untilShown("has no strikes any more");
  await page.getByTestId("strikes-show").click();
  await expect(page.locator("#strikes-result", { hasText: `${buyer.user}: 0 of 10 strikes` })).toBeVisible();
});

test("Enter in the form of bans bans a user, whom Lift lets in again", async ({ page }) => {
  const { id } = await publish();
  const { user, token } = await signIn();
  const untilTicket = (expected) => eventually(`the ticket's answer ${expected}`, async () => {
    const { status, document } = await send("POST", `/api/activities/${id}/ticket`, { token, body: {} });
    return { done: (document.code ?? status) === expected, value: document };
  });
  await openDesk(page, "/admin/buyers");
  const notice = await recordText(page.getByTestId("notice"));
  const name = page.getByTestId("ban-form").getByLabel("Who");
  await name.fill(user);
  await name.press("Enter");
  await notice.untilShown(`${user} is banned for 60 minutes.`);
  await untilTicket("banned");
  await expect(page.getByTestId("ban").filter({ hasText: user })).toContainText("User");
  await page.getByTestId("ban-lift").click();
  await expect(page.getByTestId("ban").filter({ hasText: user })).toHaveCount(0);
  await notice.untilShown(`${user} may take part again.`);
  await untilTicket(201);
});

test("an operator bans and lifts exactly the user that the page names, also one that looks like another", async ({ page }) => {
  const user = unique("mallory");
  const names = [`${user}\u00a0`, ` ${user}`, `${user}\ufeff`, `${user}  x`];
  const banned = async () => {
    const { items: bans } = await callAdmin("GET", "/bans");
    return bans.map(({ name }) => name).filter((name) => name.includes(user)).sort();
  };
  await openDesk(page, "/admin/buyers");
  const notice = await recordText(page.getByTestId("notice"));
  const form = page.getByTestId("ban-form");
  for (const name of names) {
    await form.getByLabel("Who").fill(name);
    await page.getByTestId("ban-set").click();
    if (name !== name.trim()) await page.getByTestId("dialog-yes").click();
    await expect.poll(banned).toContain(name);
  }
  expect(await banned()).toEqual([...names].sort());
  // The name can be copied from the list: white space in it is shown.
  const rows = page.getByTestId("ban").filter({ hasText: user });
  await expect(rows).toHaveCount(names.length);
  const shown = await rows.locator(".exact").evaluateAll((nodes) => nodes.map((node) => node.innerText).sort());
  expect(shown).toEqual([...names].sort());
  // An answer that a later load overtakes is left out.
  const release = await holdAnswers(page, /\/bans\?/);
  await form.getByLabel("Who").fill(names[0]);
  await page.getByTestId("ban-lift").click();
  await expect.poll(banned).not.toContain(names[0]);
  release();
  await expect(rows).toHaveCount(names.length - 1);
  for (let left = names.length - 1; left > 0; left -= 1) {
    await rows.first().getByRole("button").click();
    await expect(rows).toHaveCount(left - 1);
  }
  expect(await banned()).toEqual([]);
  // A name with white space around it is asked about: it may be a slip.
  await form.getByLabel("Who").fill(`${user} `);
  await page.getByTestId("ban-set").click();
  await page.getByTestId("dialog-no").click();
  expect([await banned(), notice.hasShown(`${user}  is banned`)]).toEqual([[], false]);
  const strikes = page.getByTestId("strikes-form");
  const asked = page.waitForRequest(/\/strikes\//);
  await strikes.getByLabel("User").fill(names[0]);
  await page.getByTestId("strikes-show").click();
  expect((await asked).url()).toContain(`/strikes/${encodeURIComponent(names[0])}`);
});

/** Finds what is typed on the page of orders. */
async function find(page, text) {
  await page.goto("/admin/orders");
  await page.getByTestId("lookup-order").fill(text);
  await page.getByTestId("lookup-order").press("Enter");
}

test("an operator finds an order by its number, its code or its buyer", async ({ page }) => {
  const { id, buyer, order } = await createOrder();
  await call("POST", `/api/orders/${order}/checkout`, { token: buyer.token, body: { address: ADDRESS } });
  await openDesk(page, "/admin/orders");
  await find(page, order);
  await untilText(page, "order-status", "To be paid");
  for (const text of [buyer.user, "1 × item", "€19.99", "Mia Example, 1 Long Road"]) await expect(page.getByTestId("order")).toContainText(text);
  for (const text of ["Ordered", "it can be paid", "The payment page was opened"]) await untilText(page, "timeline", text);
  const code = order.slice(-8).replace(/^.{4}/, "$&-");
  for (const text of [code, buyer.user]) {
    await find(page, text);
    await page.getByTestId("order-row").filter({ hasText: buyer.user }).click();
    await expect(page.getByRole("heading", { level: 1 })).toContainText(code);
  }
  await find(page, unique("nobody"));
  await untilText(page, "lookup-result", "must be complete");
  await page.goto(`/admin/order?no=${id}.01KZZZZZZZZZZZZZZZZZZZZZZZ`);
  await untilText(page, "trouble", "The ledger has no such order");
  await page.goto(deskOf(id));
  await page.getByTestId("all-orders").click();
  await page.getByTestId("order-row").click();
  await untilText(page, "order", buyer.user);
});

test("an operator gives a buyer more time to pay, and cancels an order, each with a reason", async ({ page }) => {
  const { buyer, order } = await createOrder();
  const payBy = async () => Date.parse((await call("GET", `/api/orders/${order}`, { token: buyer.token })).pay_by);
  const before = await payBy();
  await openDesk(page, `/admin/order?no=${order}`);
  await page.getByTestId("order-extend").click();
  await page.getByTestId("ask-minutes").fill("20");
  await page.getByTestId("ask-reason").fill("Uses a screen reader");
  await page.getByTestId("dialog-yes").click();
  await untilText(page, "timeline", "more time to pay Uses a screen reader");
  await expect.poll(payBy).toBeGreaterThan(before + 600_000);
  await page.getByTestId("order-cancel").click();
  await page.getByTestId("ask-reason").fill("Asked for it");
  await page.getByTestId("dialog-yes").click();
  await untilText(page, "order-status", "Cancelled");
  await untilText(page, "timeline", "Asked for it");
  expect((await callAdmin("GET", `/strikes/${buyer.user}`)).count).toBe(0);
  await page.goto("/admin/changes");
  await expect(page.getByTestId("change").filter({ hasText: order })).toContainText([/cancelled the order.*Asked for it/, /more time to pay.*screen reader/]);
});

test("a complaining buyer's order is found by its code, and a part of the money is given back", async ({ page }) => {
  const { buyer, order } = await createOrder();
  const { checkout_url: link } = await call("POST", `/api/orders/${order}/checkout`, { token: buyer.token, body: { address: ADDRESS } });
  await call("POST", new URL(link, url()).pathname, { body: { outcome: "paid" } });
  await untilOrder(order, "paid", buyer);
  await openDesk(page, "/admin/orders");
  await find(page, order.slice(-8));
  await page.getByTestId("order-row").filter({ hasText: buyer.user }).click();
  await page.getByTestId("order-refund").click();
  await untilText(page, "dialog-outcome", "The buyer gets all of it back: €19.99. The order ends.");
  await page.getByTestId("ask-amount").fill("20");
  await untilText(page, "dialog-outcome", "At most €19.99.");
  await page.getByTestId("ask-amount").fill("5");
  await untilText(page, "dialog-outcome", "The buyer gets €5.00 back, and keeps the order.");
  await page.getByTestId("ask-reason").fill("It came late");
  const sent = page.waitForRequest(/\/refund$/);
  await page.getByTestId("dialog-yes").click();
  const request = await sent;
  expect(request.postDataJSON()).toEqual({ amount: 500, reason: "It came late" });
  expect(request.headers()["idempotency-key"]).toMatch(/^[0-9a-f-]{36}$/);
  await expect(page.getByTestId("order")).toContainText("Given back so far€5.00");
  await untilText(page, "order-status", "Partly refunded");
  await untilText(page, "timeline", "It came late");
  await expect.poll(async () => (await call("GET", `/api/orders/${order}`, { token: buyer.token })).refunded_amount).toBe(500);
});

for (const isRefused of [false, true]) {
  const how = isRefused ? "whose token is refused" : "who leaves";
  test(`an operator ${how} leaves nothing about buyers in the page`, async ({ page }) => {
    const invited = unique("invited");
    const { id, buyer, order } = await createOrder({ eligibility: { allow: [invited] } }, invited);
    await call("POST", `/api/orders/${order}/checkout`, { token: buyer.token, body: { address: ADDRESS } });
    // Two spaces: copied from the page, the name is the same one.
    await changeAnswers(page, `**/api/admin/orders/${order}`, (shown) => ({ ...shown, user: "ada  lovelace" }));
    await openDesk(page, `/admin/order?no=${order}`);
    await untilText(page, "order", "1 Long Road");
    expect(await page.getByTestId("order").innerText()).toContain("ada  lovelace");
    await page.goto(editorOf(id));
    await unfold(page, "who");
    await expect(page.getByTestId("f-allow")).toHaveValue(invited);
    if (isRefused) {
      const refusal = { title: "Unauthorized", status: 401, detail: "The token is not valid.", code: "unauthenticated" };
      await page.route("**/api/admin/**", (route) => route.fulfill({ status: 401, json: refusal }));
    } else {
      await page.getByTestId("leave").click();
    }
    await expect(page.getByTestId("enter")).toBeVisible();
    const left = () => page.evaluate(() => {
      const values = [...document.querySelectorAll("input, textarea")].map(({ value }) => value);
      return document.documentElement.outerHTML + values.join();
    });
    for (const text of ["1 Long Road", "ada  lovelace", invited, order]) await expect.poll(left).not.toContain(text);
    await page.unrouteAll();
    await page.goto("/admin");
    await signInAsOperator(page);
    for (const text of ["1 Long Road", "ada  lovelace", order]) expect(await left()).not.toContain(text);
    // The desk is still there after a reload.
    await page.reload();
    await expect(page.getByTestId("leave")).toBeVisible();
    await expect(page.getByTestId("enter")).toBeHidden();
  });
}

test("an operator decides about a payment of an unknown order", async ({ page }) => {
  const { id } = await publish();
  // The number of an order that its ticket has not made.
  const { token } = await signIn(unique("buyer"));
  const { ticket } = await eventually("a ticket", async () => {
    const { status, document } = await send("POST", `/api/activities/${id}/ticket`, { token, body: {} });
    return { done: status === 201, value: document };
  });
  const orderNo = ticket.split(".").slice(2, 4).join(".");
  await sendPayment({ order_no: orderNo, payment: unique("pay"), amount: 1_999, currency: "EUR" });
  await openDesk(page, "/admin/inbox");
  const held = page.getByTestId("callback").filter({ hasText: orderNo });
  await expect(held).toContainText("€19.99");
  await expect(page.getByTestId("inbox-count")).toHaveText(/^\d+$/);
  const item = page.getByTestId("inbox-parked_callback").filter({ has: held });
  for (const text of ["the ledger does not have the order", "What to do:", "Parked callbacks"]) await expect(item).toContainText(text);
  await held.getByTestId("callback-dismiss").click();
  await page.getByTestId("dialog-no").click();
  await held.getByTestId("callback-refund").click();
  await page.getByTestId("dialog-yes").click();
  await expect(held).toHaveCount(0);
  const { items: refunds } = await callAdmin("GET", "/refunds");
  expect(refunds.filter(({ order_no: refunded }) => refunded === orderNo)).toHaveLength(1);
});

/** Sends a signed callback that an amount was paid. */
async function sendPayment(data) {
  const [id, now] = [unique("msg"), new Date()];
  const body = JSON.stringify({ type: "payment.succeeded", timestamp: now.toISOString(), data });
  const headers = {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(now / 1_000)),
    "webhook-signature": new Webhook(webhookSecret()).sign(id, now, body),
  };
  await call("POST", "/api/payments/webhook", { body, headers });
}
