// A shop with an OpenID Connect provider sells through our pages (B1).

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { publish, unique, url } from "../support/app.js";
import { startProvider } from "../support/oidc-server.js";
import { buyNow, payNow, untilText } from "../support/page.js";
import { expect, test as plain } from "../support/test.js";

const ISSUER = "http://127.0.0.1:{port:issuer}";

plain.use({
  variables: {
    jwt_key: "", jwt_jwks_url: `${ISSUER}/jwks`, jwt_jwks_host: ISSUER, jwt_algorithm: "RS256",
    jwt_issuer: ISSUER, jwt_audience: "pages", oidc_issuer: ISSUER, oidc_client_id: "pages",
  },
});

const test = plain.extend({
  identity: async ({ app: _ }, use) => {
    const identity = await startProvider(url());
    await use(identity);
    await identity.stop();
  },
});

test.describe.configure({ mode: "serial" });

/** Signs in and consents on the provider's pages. */
async function enterProvider(page, user) {
  await page.waitForURL(/\/interaction\//);
  await page.locator("[name=login]").fill(user);
  await page.locator("[name=password]").fill("any");
  await page.locator("button[type=submit]").click();
  await page.locator("form[action$='/confirm'] button, button:has-text('Continue')").first().click();
}

/** Opens a page that does not load the fonts of the provider's pages from the network. */
async function open(newPage, path) {
  const page = await newPage();
  await page.context().route(/fonts\.googleapis\.com/, (route) => route.abort());
  await page.goto(path);
  return page;
}

test("a sale is sold to buyers who sign in with OpenID Connect", { tag: "@main" }, async ({ newPage, identity, words }) => {
  const { id } = await publish({ total: 2 });
  expect(identity.issuer).toBe(process.env.STAMPEDE_OIDC_ISSUER);
  for (let sold = 0; sold < 2; sold += 1) {
    const page = await open(newPage, `/sale?activity=${id}`);
    const user = unique("oda");
    await untilText(page, "buy", words["sign_in.buy"]);
    await page.getByTestId("buy").click();
    await enterProvider(page, user);
    await page.waitForURL(/\/sale\?/);
    await expect(page.getByTestId("user")).toHaveText(user);
    await buyNow(page);
    await payNow(page, words["order.paid"]);
    await page.getByTestId("nav-orders").click();
    await untilText(page, "order-link", words["status.paid"]);
  }
  const late = await open(newPage, `/sale?activity=${id}`);
  await untilText(late, "outcome", words["outcome.sold_out"]);
});

test("a token is renewed before it ends, by one tab", async ({ newPage, identity }) => {
  const page = await open(newPage, "/orders");
  const user = unique("rea");
  await page.getByTestId("sign-in").click();
  await enterProvider(page, user);
  await expect(page.getByTestId("user")).toHaveText(user);
  const tab = await page.context().newPage();
  await tab.goto("/orders");
  await untilText(tab, "orders-state", "You have no orders yet");
  const failures = [];
  identity.provider.on("grant.error", (_, error) => failures.push(error.message));
  for (let renewals = 0; renewals < 2; renewals += 1) {
    const token = () => page.evaluate(() => localStorage.getItem("stampede.token"));
    const before = await token();
    await expect.poll(token).not.toBe(before);
  }
  expect(failures, "a refresh token was used twice").toEqual([]);
  await page.reload();
  await untilText(page, "orders-state", "You have no orders yet");
  await expect(page.getByTestId("user")).toHaveText(user);
});

test("a renewal that is under way does not undo a sign-out", async ({ newPage, identity: _ }) => {
  const page = await open(newPage, "/orders");
  await page.getByTestId("sign-in").click();
  await enterProvider(page, unique("sue"));
  await untilText(page, "orders-state", "You have no orders yet");
  let answer;
  const isHeld = new Promise((resolve) => (answer = resolve));
  await page.context().route(/\/token$/, async (route) => {
    await isHeld;
    await route.continue();
  });
  const asked = page.waitForRequest(/\/token$/);
  await page.evaluate(() => localStorage.setItem("stampede.renew_at", "0"));
  await asked;
  await page.getByTestId("sign-out").click();
  const answered = page.waitForResponse(/\/token$/);
  answer();
  await answered;
  await page.reload();
  await expect(page.getByTestId("sign-in")).toBeVisible();
  const stored = () => ["token", "refresh"].map((key) => localStorage.getItem(`stampede.${key}`));
  expect(await page.evaluate(stored)).toEqual([null, null]);
});

test("after a sign-out the provider asks who signs in", async ({ newPage, identity: _ }) => {
  const page = await open(newPage, "/orders");
  await page.getByTestId("sign-in").click();
  await enterProvider(page, unique("pat"));
  await untilText(page, "orders-state", "You have no orders yet");
  await page.getByTestId("sign-out").click();
  await page.getByTestId("sign-in").click();
  const next = unique("quin");
  await enterProvider(page, next);
  await expect(page.getByTestId("user")).toHaveText(next);
  // A token that was lost is no sign-out.
  await page.evaluate(() => localStorage.removeItem("stampede.token"));
  await page.reload();
  await page.getByTestId("sign-in").click();
  await expect(page.getByTestId("user")).toHaveText(next);
});

test("an answer of the provider that this tab has not asked for signs nobody in", async ({ newPage, identity: _ }) => {
  const page = await open(newPage, "/signed-in?code=stolen&state=invented");
  await untilText(page, "signed-in-state", "That did not sign you in");
  await expect(page.getByTestId("sign-in")).toBeVisible();

  await page.goto("/orders");
  await page.getByTestId("sign-in").click();
  await page.waitForURL(/\/interaction\//);
  await page.goto("/signed-in?code=stolen&state=invented");
  await untilText(page, "signed-in-state", "That did not sign you in");
  expect(await page.evaluate(() => localStorage.getItem("stampede.token"))).toBeNull();
});

test("a buyer who comes back to the provider's answer goes on to the sale", async ({ newPage, identity: _ }) => {
  const { id } = await publish();
  const page = await open(newPage, `/sale?activity=${id}`);
  await page.getByTestId("buy").click();
  const answer = page.waitForRequest(/\/signed-in\?/);
  await enterProvider(page, unique("bea"));
  await page.waitForURL(/\/sale\?/);
  await page.goto((await answer).url());
  await page.waitForURL(`**/sale?activity=${id}`);
});

test("a sign-in goes on where the provider did not answer, and begins again where its answer was lost", async ({ newPage, identity: _ }) => {
  const page = await open(newPage, "/orders");
  await page.getByTestId("sign-in").click();
  let requests = 0;
  await page.context().route(/\/token$/, (route) => ((requests += 1) === 1 ? route.abort() : route.continue()));
  const user = unique("cleo");
  await enterProvider(page, user);
  await page.waitForURL(/\/orders/);
  await expect(page.getByTestId("user")).toHaveText(user);
  expect(requests).toBe(2);

  await page.evaluate(() => localStorage.clear());
  await page.context().unroute(/\/token$/);
  await page.goto("/orders");
  let isLost = true;
  await page.context().route(/\/token$/, async (route) => {
    if (!isLost) return route.continue();
    isLost = false;
    await route.fetch();
    await route.abort();
  });
  await page.getByTestId("sign-in").click();
  // The provider asks for consent again, because the code was sent twice.
  await page.locator("button:has-text('Continue')").click();
  await expect(page.getByTestId("user")).toHaveText(user);
  await page.waitForURL(/\/orders/);
});

test("a page says why nobody can sign in", async ({ newPage, identity: _, words }) => {
  const page = await newPage();
  await page.context().route(/openid-configuration/, (route) => route.fulfill({ json: { issuer: "https://other.example" } }));
  await page.goto("/orders");
  await page.getByTestId("sign-in").click();
  await expect(page.locator("dialog")).toContainText(words["sign_in.no_provider"]);
  await page.addInitScript(() => Object.defineProperty(globalThis, "sessionStorage", { get: () => { throw new Error("blocked"); } }));
  await page.reload();
  await page.getByTestId("sign-in").click();
  await expect(page.locator("dialog")).toContainText(words["sign_in.no_storage"]);
});

test("the library is the published one", () => {
  const packaged = readFileSync(createRequire(import.meta.url).resolve("oauth4webapi"), "utf8");
  const vendored = new URL("../../../static/assets/vendor/oauth4webapi/oauth4webapi.js", import.meta.url);
  expect(readFileSync(vendored, "utf8")).toBe(packaged.replace(/^\/\/# sourceMappingURL=.*\n?/m, ""));
});
