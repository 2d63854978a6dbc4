// A shop with its own session sells through our pages (B1).

import { orderOf, publish, unique, url } from "../support/app.js";
import { buyNow, goToPayment, payNow, setHidden, untilText } from "../support/page.js";
import { ShopServer } from "../support/shop-server.js";
import { expect, test as plain } from "../support/test.js";

const SHOP = "http://127.0.0.1:{port:shop}";

plain.use({ variables: { sign_in_url: `${SHOP}/login?from=sale`, session_url: `${SHOP}/session` } });

const test = plain.extend({
  shop: async ({ app: _ }, use) => {
    const shop = await new ShopServer(url()).start();
    await use(shop);
    await shop.stop();
  },
});

// Each test has the shop's port to itself.
test.describe.configure({ mode: "serial" });

/** Signs in on the shop's page. */
async function enterShop(page, user) {
  await page.waitForURL(/\/login\?/);
  await page.getByLabel("Name").fill(user);
  await page.getByRole("button", { name: "Enter the shop" }).click();
}

/** Opens the page of a new buyer's orders, who has signed in at the shop. */
async function openAsBuyer(newPage) {
  const page = await newPage("/orders");
  await page.getByTestId("sign-in").click();
  await enterShop(page, unique("ida"));
  await untilText(page, "orders-state", "You have no orders yet");
  return page;
}

/** Signs another buyer in at the shop, which answers again. */
function signInNext(shop) {
  const next = unique("joe");
  for (const sid of shop.sessions.keys()) shop.sessions.set(sid, next);
  shop.fails = false;
  return next;
}

test("a sale is sold to buyers who sign in at the shop", { tag: "@main" }, async ({ shop, newPage, words }) => {
  const { id } = await publish({ total: 2 });
  for (let sold = 0; sold < 2; sold += 1) {
    const page = await newPage(`/sale?activity=${id}`);
    const user = unique("ann");
    await expect(page.getByTestId("buy")).toHaveText(words["sign_in.buy"]);
    await page.getByTestId("buy").click();
    await enterShop(page, user);
    await page.waitForURL(/\/sale\?/);
    await expect(page.getByTestId("user")).toHaveText(user);
    await expect(page.getByTestId("sign-out")).toBeHidden();
    await buyNow(page);
    await payNow(page, words["order.paid"]);
    await page.getByTestId("nav-orders").click();
    await untilText(page, "order-link", words["status.paid"]);
  }
  expect(shop.returnAddresses.at(-1)).toBe(`${url()}/sale?activity=${id}`);
  const late = await newPage(`/sale?activity=${id}`);
  await untilText(late, "outcome", words["outcome.sold_out"]);
});

test("one sign-in serves all tabs, and the shop's sign-out ends it", async ({ shop, newPage }) => {
  const { id } = await publish();
  const page = await newPage(`/sale?activity=${id}`);
  const tab = await page.context().newPage();
  await tab.goto("/orders");
  await untilText(tab, "orders-state", "Sign in to see your orders");
  const user = unique("tia");
  await page.bringToFront();
  await page.getByTestId("sign-in").click();
  await enterShop(page, user);
  await expect(page.getByTestId("user")).toHaveText(user);
  await expect(tab.getByTestId("user")).toHaveText(user);
  await untilText(tab, "orders-state", "You have no orders yet");

  // A token that the server refused is removed for a moment: the tickets of the other tab stay.
  await tab.evaluate(() => sessionStorage.setItem("stampede.ticket.x", "{}"));
  const ticket = () => tab.evaluate(() => sessionStorage.getItem("stampede.ticket.x"));
  await page.evaluate(() => {
    const token = localStorage.getItem("stampede.token");
    localStorage.removeItem("stampede.token");
    localStorage.setItem("stampede.token", token);
  });
  await expect(tab.getByTestId("user")).toHaveText(user);
  expect(await ticket()).toBe("{}");

  shop.sessions.clear();
  await page.evaluate(() => localStorage.removeItem("stampede.checked_at"));
  await page.reload();
  await untilText(page, "buy", "Sign in to buy");
  await expect(tab.getByTestId("sign-in")).toBeVisible();
  await expect.poll(ticket).toBe(null);
});

test("who signs in at the shop within the minute of the last buyer is that user here, too", async ({ shop, newPage }) => {
  const page = await openAsBuyer(newPage);
  const shopPage = await page.evaluate(() => location.href);
  const bob = unique("bob");
  await page.goto(`http://127.0.0.1:${process.env.STAMPEDE_PORT_SHOP}/login?return_to=${shopPage}`);
  await enterShop(page, bob);
  await expect(page.getByTestId("user")).toHaveText(bob);

  // A page that was opened without asking, because another one had just asked, asks when the minute is over.
  const next = signInNext(shop);
  const asked = shop.asked;
  await page.evaluate(() => localStorage.setItem("stampede.checked_at", String(Date.now() - 52_000)));
  await page.locator('a[href="/"]').first().click();
  await page.waitForURL(`${url()}/`);
  await expect(page.getByTestId("user")).toHaveText(bob);
  expect(shop.asked).toBe(asked);
  await expect(page.getByTestId("user")).toHaveText(next);
  expect(shop.asked).toBe(asked + 1);
});

for (const trouble of ["the shop is slow", "the settings fail once"]) {
  test(`who comes from the shop and clicks at once buys in their own name, also if ${trouble}`, async ({ shop, newPage }) => {
    const { id } = await publish();
    const page = await openAsBuyer(newPage);
    const bob = signInNext(shop);
    if (trouble === "the shop is slow") shop.delayMs = 3_000;
    else await page.route("**/settings.json", (route) => route.fulfill({ status: 503 }), { times: 1 });
    await page.goto(`/sale?activity=${id}`);
    await page.getByTestId("buy").click();
    await page.waitForURL(/\/order\?/);
    await expect(page.getByTestId("user")).toHaveText(bob);
    await expect(page.getByTestId("order")).toBeVisible();
  });
}

test("the button is enabled again after at most ten seconds, also if the shop is slow", async ({ shop, newPage }) => {
  const { id } = await publish();
  const page = await openAsBuyer(newPage);
  signInNext(shop);
  shop.delayMs = 15_000;
  await page.route(/\/activities\/[^/]+\/orders$/, () => {});
  await page.goto(`/sale?activity=${id}`);
  await page.getByTestId("buy").click();
  const clickedAt = Date.now();
  await expect(page.getByTestId("buy")).toBeDisabled();
  await expect(page.getByTestId("buy")).toBeEnabled();
  expect(Date.now() - clickedAt).toBeLessThan(11_000);
});

test("a page without the settings asks for them again, and follows the shop's session then", async ({ shop, newPage }) => {
  const page = await openAsBuyer(newPage);
  const bob = signInNext(shop);
  await page.route("**/settings.json", (route) => route.fulfill({ status: 503 }), { times: 1 });
  await page.goto("/orders");
  await expect(page.getByTestId("user")).toHaveText(bob);
});

test("a token that ends, or that the server refuses, is replaced unseen", async ({ shop, newPage }) => {
  shop.tokenSeconds = 10;
  const { id } = await publish();
  const page = await newPage(`/sale?activity=${id}`);
  await page.getByTestId("buy").click();
  const user = unique("ren");
  await enterShop(page, user);
  await expect(page.getByTestId("user")).toHaveText(user);
  const token = () => page.evaluate(() => localStorage.getItem("stampede.token"));
  const first = await token();
  await expect.poll(token).not.toBe(first);
  await expect(page.getByTestId("user")).toHaveText(user);

  await page.evaluate(() => localStorage.setItem("stampede.token", "x.e30.x"));
  await page.goto("/orders");
  await untilText(page, "orders-state", "You have no orders yet");
  await expect(page.getByTestId("user")).toHaveText(user);
  expect(page.url()).toBe(`${url()}/orders`);
  await expect(page.locator("dialog")).toHaveCount(0);
});

test("a sign-out at the shop empties a page whose token has ended already", async ({ shop, newPage }) => {
  const { id } = await publish();
  const page = await newPage(`/sale?activity=${id}`);
  await page.getByTestId("buy").click();
  await enterShop(page, unique("eve"));
  await buyNow(page);
  await goToPayment(page);
  await page.getByTestId("sandbox-pay").click();
  await page.waitForURL(/\/order\?/);
  // Nothing polls a paid order, and its ticket reads it without the token.
  await expect(page.locator("#order[data-status=paid]")).toBeVisible();
  shop.sessions.clear();
  await page.evaluate(() => {
    localStorage.removeItem("stampede.token");
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await expect(page.getByTestId("order")).toBeHidden();
  await expect(page.locator("#facts")).toBeEmpty();
});

/** Opens a page of a signed-in buyer. From then on the page has a clock of its own, and the shop fails for `minutes`. */
async function openWhileShopFails(shop, newPage, minutes) {
  const page = await openAsBuyer(newPage);
  await page.clock.install();
  shop.fails = true;
  shop.asked = 0;
  await page.reload();
  await page.evaluate(() => localStorage.setItem("stampede.checked_at", "0"));
  for (let minute = 0; minute < minutes; minute += 1) {
    await page.clock.runFor(60_000);
    await page.evaluate(() => fetch("/healthz").then((response) => response.text()));
  }
  return page;
}

test("a page that is shown again soon asks a shop that has failed for long", async ({ shop, newPage }) => {
  const page = await openWhileShopFails(shop, newPage, 6);
  const next = signInNext(shop);
  await page.clock.runFor(30_000);
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await expect(page.getByTestId("user")).toHaveText(next);
});

test("a shop that fails is asked ever more rarely, and followed when it answers again", async ({ shop, newPage }) => {
  const page = await openWhileShopFails(shop, newPage, 40);
  // Half a minute, doubled up to ten: some seven in 40 minutes.
  expect(shop.asked).toBeGreaterThan(3);
  expect(shop.asked).toBeLessThan(12);
  await expect(page.getByTestId("user")).toContainText("ida");
  const next = signInNext(shop);
  await page.clock.runFor(14 * 60_000);
  await expect(page.getByTestId("user")).toHaveText(next);
});

test("while the shop does not answer, the pages show what they can", async ({ shop, newPage }) => {
  const { id } = await publish();
  await shop.stop();
  const page = await newPage(`/sale?activity=${id}`);
  await expect(page.getByTestId("buy")).toBeEnabled();
  await untilText(page, "buy", "Sign in to buy");
});

test("the content security policy allows the shop's origins and no others", async ({ shop: _ }) => {
  // Of the page's own parts, the hashes.
  const policy = (await fetch(url())).headers.get("content-security-policy").replaceAll(/( 'sha256-[\w+/]+=')+/g, " hashes");
  const shop = `http://127.0.0.1:${process.env.STAMPEDE_PORT_SHOP}`;
  const directives = Object.fromEntries(policy.split(";").map((part) => part.trim().split(/ (.*)/)));
  expect(directives).toEqual({
    "default-src": "'none'", "script-src": "'self' hashes", "worker-src": "'self'", "style-src": "'self' hashes",
    "img-src": "'self' data: https:", "connect-src": `'self' ${shop}`, "form-action": `'self' ${shop}`,
    "base-uri": "'none'", "frame-ancestors": "'none'",
  });
});

test("the sign-in of a buyer who waits for a unit is renewed on a hidden page, and that of another is not", async ({ shop: _, newPage }) => {
  const { id } = await publish({ total: 1, line: { mode: "waitlist" } });
  await orderOf(id);
  const page = await openAsBuyer(newPage);
  const renewAt = () => page.evaluate(() => Number(localStorage.getItem("stampede.renew_at")));
  const hide = async () => {
    await setHidden(page, true);
    await page.evaluate(() => localStorage.setItem("stampede.renew_at", "1"));
  };
  const join = page.locator('[data-testid="buy"][data-action="join"]');
  // A page that is opened asks the shop.
  const asked = page.waitForResponse(/\/session$/);
  await page.goto(`/sale?activity=${id}`);
  await asked;
  await expect(join).toBeEnabled();
  await hide();
  await page.waitForTimeout(7_000);
  expect(await renewAt()).toBe(1);
  await setHidden(page, false);
  await join.click();
  await page.waitForURL(/\/order\?/);
  await untilText(page, "headline", "You are on the waitlist");
  await hide();
  await expect.poll(renewAt).toBeGreaterThan(Date.now());
});
