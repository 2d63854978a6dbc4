// `<stampede-buy>` in a page of another origin, which is two lines of HTML (G13).

import { variable } from "../../support/app.mjs";
import { TEXTS } from "../../../clients/js/src/element/texts.js";
import { accessibilityViolations } from "../support/axe.js";
import { call, orderOf, publish, reserve, signIn, unique, untilOrder, url } from "../support/app.js";
import { retryIfLate } from "../support/retry-if-late.js";
import { ShopServer } from "../support/shop-server.js";
import { expect, test as plain } from "../support/test.js";
import { startWebKit } from "../support/webkit.js";

const SHOP = "http://127.0.0.1:{port:shop}";

plain.use({ variables: { cors_origins: SHOP, sign_in_url: `${SHOP}/login`, session_url: `${SHOP}/session` } });

const test = plain.extend({
  shop: async ({ app: _ }, use) => {
    const shop = await new ShopServer(url()).start();
    await use(shop);
    await shop.stop();
  },
  texts: ({ locale }, use) => use(TEXTS[locale.slice(0, 2)]),
});

// Each test has the shop's port to itself.
test.describe.configure({ mode: "serial" });

const SIGN_IN = `session-url="/session" sign-in-url="/login"`;

/** The two lines. */
const twoLines = (id, attributes = SIGN_IN) =>
  `<script type="module" src="${url()}/client/v1/element.js"></script>\n<stampede-buy activity="${id}" sku="item" ${attributes}></stampede-buy>`;

const shopUrl = () => `http://127.0.0.1:${variable("PORT_SHOP")}/`;

/** Opens the shop's page for a user who is signed in at the shop. `events` has the names of the element's events. */
async function openShop(page, shop, html, user) {
  shop.page = html;
  await page.addInitScript(() => {
    const record = ({ type }) => sessionStorage.setItem("events", `${sessionStorage.getItem("events") ?? ""} ${type}`);
    for (const type of ["waiting", "accepted", "refused", "paid", "sign-in"]) addEventListener(type, record);
  });
  if (user) {
    const sid = user.replace(/\W/g, "");
    shop.sessions.set(sid, user);
    await page.context().addCookies([{ name: "sid", value: sid, url: shopUrl() }]);
  }
  await page.goto(shopUrl());
  const part = (name) => page.locator(`stampede-buy [part=${name}]`);
  return { button: part("button"), link: part("link"), status: part("status"), countdown: part("countdown"), price: part("price") };
}

const events = (page) => page.evaluate(() => (sessionStorage.getItem("events") ?? "").trim());

// Runs in the page: records the boxes at every frame, until `stopRecording` returns those that differ.
const recordBoxes = () => {
  const [host, seen] = [document.querySelector("stampede-buy"), new Set()];
  let isOver = false;
  const record = () => {
    const boxes = [host, host.shadowRoot.querySelector("button")].map((node) => node.getBoundingClientRect());
    seen.add(boxes.map(({ x, y, width, height }) => [x, y, width, height].join()).join(" "));
    if (!isOver) requestAnimationFrame(record);
  };
  record();
  globalThis.stopRecording = () => ((isOver = true), [...seen]);
};

test("a page of two lines waits for the start without moving, sells, and hears that it is paid", { tag: "@main" }, ({ newPage, shop, texts }) => retryIfLate(async () => {
  const { id } = await publish({ startsIn: 10_000, checkout: "none", human_check: "pow" });
  const page = await newPage();
  const { button, link, status, countdown, price } = await openShop(page, shop, twoLines(id));
  await expect(price).toContainText("19.99");
  await expect(link.or(button).filter({ visible: true })).not.toHaveText(texts.loading);
  if (await link.innerText() !== texts.take_part) return "the page loaded after the start";
  await link.click();
  await page.getByLabel("Name").fill(unique("ada"));
  await page.getByRole("button", { name: "Enter the shop" }).click();
  await page.waitForURL(shopUrl());
  await expect(status).not.toBeEmpty();
  await expect(button).not.toHaveText(texts.busy);
  if (await status.innerText() !== texts.before_pass) return "signing in took until the start";
  await expect(button).toBeDisabled();
  await expect(countdown).toContainText(texts.starts);
  expect(await accessibilityViolations(page, "stampede-buy")).toEqual([]);
  await page.evaluate(recordBoxes);
  await button.focus();
  await expect(button).toHaveText(texts.buy.replace("{total}", "€19.99"));
  expect(await page.evaluate(() => globalThis.stopRecording())).toHaveLength(1);
  expect(await accessibilityViolations(page, "stampede-buy")).toEqual([]);
  // It has kept the focus.
  await page.keyboard.press("Enter");
  await expect(button).toHaveText(texts.pay);
  await expect(countdown).toContainText(texts.yours_for);
  expect(await accessibilityViolations(page, "stampede-buy")).toEqual([]);
  expect(await events(page)).toBe("sign-in accepted");
  await button.click();
  await page.getByTestId("sandbox-pay").click();
  await page.waitForURL(/\/order\?.*payment=done/);
  await page.goto(shopUrl());
  await expect(status).toHaveText(texts.paid);
  await expect(link).toHaveText(texts.order);
  expect(await events(page)).toBe("sign-in accepted paid");
}));

test("a page of two lines sells in WebKit", { tag: "@webkit" }, async ({ shop, texts }) => {
  test.skip(process.platform !== "linux", "WebKitGTK is only packaged for Linux");
  const { id } = await publish({ checkout: "none" });
  shop.page = twoLines(id);
  const webkit = await startWebKit();
  try {
    await webkit.open(shopUrl());
    await webkit.click("stampede-buy >>> a");
    await webkit.fill("input[name=user]", unique("wei"));
    await webkit.click("form button");
    await webkit.untilText("stampede-buy >>> button", "19.99");
    await webkit.click("stampede-buy >>> button");
    await webkit.untilText("stampede-buy >>> button", texts.pay);
    await webkit.click("stampede-buy >>> button");
    await webkit.click("sandbox-pay");
    // The order's page.
    await webkit.untilText("nav-orders", (text) => text !== "");
    await webkit.open(shopUrl());
    await webkit.untilText("stampede-buy >>> a", texts.order);
    expect(await webkit.errors()).toEqual([]);
  } catch (error) {
    console.log(await webkit.describe());
    throw error;
  } finally {
    await webkit.stop();
  }
});

test("with an address the element leads to our page of the order, and without a sign-in to that of the sale", async ({ page, shop }) => {
  const { id } = await publish();
  // The policy of docs/frontend.md.
  const policy = `<meta http-equiv="content-security-policy" content="default-src 'self'; script-src ${url()}; connect-src 'self' ${url()}">`;
  const { button, link } = await openShop(page, shop, policy + twoLines(id), unique("bea"));
  await button.click();
  await expect(link).toHaveText(TEXTS.en.pay);
  expect(await link.getAttribute("href")).toMatch(`${url()}/order?order_no=${id}.`);
  shop.page = twoLines(id).replace("></stampede-buy>", `><a slot="pay-link" href="/till">Pay at the till</a></stampede-buy>`);
  await page.reload();
  await expect(page.getByText("Pay at the till")).toBeVisible();
  await expect(link.or(button).filter({ visible: true })).toHaveCount(0);
  await page.evaluate(() => document.querySelector("[slot]").remove());
  await link.click();
  await expect(page.getByTestId("pay")).toBeVisible();
  await openShop(page, shop, twoLines(id, ""));
  await link.click();
  await page.waitForURL(`${url()}/sale?activity=${id}`);
});

test("a reload goes on with the attempt, and finds the order that waits for its payment", async ({ page, shop }) => {
  const { id } = await publish({ skus: ["item", "other"].map((sku) => ({ sku, name: sku, price: 1_999, currency: "EUR", total: 10 })) });
  const user = unique("cem");
  await page.route(/\/orders$/, (route) => (route.request().method() === "POST" ? route.abort() : route.continue()));
  const { button, link, status } = await openShop(page, shop, twoLines(id) + `<stampede-buy activity="${id}" sku="other" ${SIGN_IN}></stampede-buy>`, user);
  await button.first().click();
  await expect(status.first()).toContainText("No connection");
  await expect(button.first()).toBeDisabled();
  await page.unroute(/\/orders$/);
  const ORDER = /\/api\/orders\/[^/]+$/;
  await page.route(ORDER, async (route) => {
    const response = await route.fetch();
    return response.ok() ? route.fulfill({ response, json: { ...await response.json(), status: "queued", ahead: 5 } }) : route.fulfill({ response });
  });
  await page.reload();
  await expect(status.first()).toHaveText("It is reserved for you. Orders ahead: 5");
  await page.unroute(ORDER);
  for (let reloads = 0; reloads < 2; reloads += 1) {
    await page.reload();
    await expect(link.first()).toHaveText(TEXTS.en.pay);
    await expect(button.last()).toHaveText("Buy · €19.99");
  }
  expect((await call("GET", "/api/orders", { token: (await signIn(user)).token })).items).toHaveLength(1);
});

test("it says what is sold out and why it refuses, in the page's language and words", async ({ page, shop }) => {
  const { id } = await publish({ total: 1 });
  const user = unique("dia");
  const own = `<b slot="sold-out">Back on Friday.</b>`;
  const inside = (html) => html.replace("></stampede-buy>", `>${own}</stampede-buy>`);
  await orderOf(id, (await signIn()).user);
  const { button, link, status } = await openShop(page, shop, `<html lang="zh">${twoLines(id)}`, user);
  await expect(button).toHaveText(TEXTS.zh.sold_out);
  await expect(status).toHaveText(TEXTS.zh.comes_back);
  shop.page = inside(twoLines(id));
  await page.reload();
  await expect(page.getByText("Back on Friday.")).toBeVisible();
  await expect(status.getByText(TEXTS.en.comes_back)).toBeHidden();

  const other = await publish({ perUser: 1 });
  const { order, buyer } = await orderOf(other.id, user);
  await untilOrder(order, "pending_payment", buyer);
  shop.page = twoLines(other.id);
  await page.reload();
  await button.click();
  await expect(status).toHaveText("You already have the most one person can buy.");
  await expect(link).toHaveAttribute("href", `${url()}/orders`);
  expect(await events(page)).toBe("refused");
});

test("a buyer joins the waitlist in the element, which leads to their place, and says when it is their turn", async ({ page, shop }) => {
  const { id } = await publish({ total: 1, line: { mode: "waitlist" } });
  const { buyer, order } = await orderOf(id);
  const { button, link, status } = await openShop(page, shop, twoLines(id), unique("eli"));
  await expect(button).toHaveText(TEXTS.en.join);
  await button.click();
  for (let reloads = 0; reloads < 2; reloads += 1) {
    await expect(link).toHaveText(TEXTS.en.place);
    await expect(status).toHaveText(TEXTS.en.first);
    await expect(link).toHaveAttribute("href", new RegExp(`^${url()}/order\\?order_no=${id}\\.`));
    if (!reloads) await page.reload();
  }
  expect(await accessibilityViolations(page, "stampede-buy")).toEqual([]);
  await call("POST", `/api/orders/${order}/cancel`, { token: buyer.token, body: {} });
  await expect(link).toHaveText(TEXTS.en.pay);
  expect(await events(page)).toBe("waiting waiting accepted");
});

test("a buyer who waits already, by another device, is led to that place, also after a reload, and to the payment", async ({ page, shop }) => {
  const { id } = await publish({ total: 1, line: { mode: "waitlist", max_units: 5 } });
  const { buyer, order } = await orderOf(id);
  const user = unique("fay");
  const { order_no: entry } = await reserve(id, await signIn(user));
  const { button, link, status } = await openShop(page, shop, twoLines(id), user);
  await button.click();
  for (let reloads = 0; reloads < 2; reloads += 1) {
    await expect(status).toHaveText(TEXTS.en.first);
    await expect(link).toHaveAttribute("href", `${url()}/order?order_no=${entry}`);
    if (!reloads) await page.reload();
  }
  await call("POST", `/api/orders/${order}/cancel`, { token: buyer.token, body: {} });
  await expect(link).toHaveText(TEXTS.en.pay);
  await page.reload();
  await expect(link).toHaveText(TEXTS.en.pay);
  expect(await events(page)).toBe("waiting waiting accepted accepted");
});

test("a page may sign its buyer in by itself, and give the token later", async ({ page, shop }) => {
  const { id } = await publish();
  const { token } = await signIn();
  const script = `<script>
    addEventListener("sign-in", ({ target }) => (target.token = "${token}"));
    document.querySelector("stampede-buy").token = () => null;
  </script>`;
  const { button, link } = await openShop(page, shop, twoLines(id, "") + script);
  await expect(button).toHaveText(TEXTS.en.sign_in);
  await button.click();
  await expect(button).toHaveText("Buy · €19.99");
  await button.click();
  await expect(link).toHaveText(TEXTS.en.pay);
  expect(await events(page)).toBe("sign-in accepted");
});
