// The example page of the guide for front-end developers, served by another origin (G13).

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { variable } from "../../support/app.mjs";
import { call, orderOf, publish, signIn, url } from "../support/app.js";
import { expect, test as plain } from "../support/test.js";

plain.use({ variables: { cors_origins: "https://shop.example http://127.0.0.1:{port:shop}" } });

const test = plain.extend({
  /** The address of the page on the shop's own server. */
  example: async ({ app: _ }, use) => {
    const text = await readFile(new URL("../../../examples/frontend/buy.html", import.meta.url), "utf8");
    const page = text.replaceAll("https://sale.example", url());
    const server = createServer((_, response) => response.writeHead(200, { "content-type": "text/html" }).end(page));
    server.listen(Number(variable("PORT_SHOP")), "127.0.0.1");
    await once(server, "listening");
    await use(`http://127.0.0.1:${variable("PORT_SHOP")}/`);
    server.closeAllConnections();
    server.close();
  },
});

test("a page of another origin waits for the start, buys once though an answer is lost, and pays", async ({ example, page }) => {
  const { id } = await publish({ startsIn: 8_000 });
  const { user, token } = await signIn();
  await page.addInitScript((token) => sessionStorage.setItem("shop.token", token), token);
  let lost = 0;
  await page.route(/\/orders$/, async (route) => {
    if (route.request().method() !== "POST" || lost > 0) return route.continue();
    lost += 1;
    await route.fetch();
    await route.abort();
  });
  await page.goto(`${example}?activity=${id}`);
  await expect(page.getByRole("status")).toContainText("Starts at");
  await expect(page.getByRole("button", { name: "Buy" })).toBeDisabled();
  await page.getByRole("button", { name: "Buy" }).click();
  await expect(page.getByRole("status")).toContainText("pending_payment");
  expect(lost, "lost answers").toBe(1);
  expect((await call("GET", "/api/orders", { token: (await signIn(user)).token })).items).toHaveLength(1);
  for (const field of ["Name", "Street", "City"]) await page.getByLabel(field).fill("Doha");
  await page.getByLabel("Country").fill("QA");
  await page.getByRole("button", { name: "Pay" }).click();
  await page.waitForURL(/\/sandbox\/pay\//);
});

test("a reload of that page finds the attempt that runs, and the order that it made", async ({ example, page }) => {
  const { id } = await publish();
  const { token } = await signIn();
  await page.addInitScript((token) => sessionStorage.setItem("shop.token", token), token);
  await page.route(/\/orders$/, (route) => (route.request().method() === "POST" ? route.abort() : route.continue()));
  await page.goto(`${example}?activity=${id}`);
  await page.getByRole("button", { name: "Buy" }).click();
  await expect(page.getByRole("status")).toContainText("No connection");
  await page.unroute(/\/orders$/);
  await page.reload();
  await expect(page.getByRole("status")).toContainText("pending_payment");
  const [{ order_no: orderNo }] = (await call("GET", "/api/orders", { token })).items;
  await page.reload();
  await expect(page.getByRole("status")).toContainText(`${orderNo}: pending_payment`);
  expect((await call("GET", "/api/orders", { token })).items).toHaveLength(1);
});

test("a buyer waits in the line on that page, also after a reload, leaves, and joins again until it is their turn", async ({ example, page }) => {
  const { id } = await publish({ total: 1, line: { mode: "waitlist", offer_seconds: 120 } });
  const { order, buyer } = await orderOf(id);
  const { token } = await signIn();
  await page.addInitScript((token) => sessionStorage.setItem("shop.token", token), token);
  await page.goto(`${example}?activity=${id}`);
  const state = page.getByRole("status");
  for (let joins = 0; joins < 2; joins += 1) {
    await page.getByRole("button", { name: "Buy" }).click();
    await expect(state).toHaveText("On the waitlist, 0 ahead of you. When a unit comes back, it goes to the first in line; you then have 120 s to pay.");
    if (joins) break;
    await page.reload();
    await page.getByRole("button", { name: "Leave the waitlist" }).click();
    await expect(state).toContainText("cancelled");
  }
  await call("POST", `/api/orders/${order}/cancel`, { token: buyer.token, body: {} });
  await expect(state).toContainText("pending_payment");
  await expect(page.getByRole("button", { name: "Leave" })).toBeHidden();
});
