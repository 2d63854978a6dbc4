// Properties of all pages: caching (A1), languages, accessibility and sign-in.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { test } from "node:test";
import { publish, reserve, signIn, unique, untilOrder, url } from "../support/app.js";
import { byTestId, signInAsOperator, signInOnPage, untilText, withPage } from "../support/browser.js";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The accessibility violations that axe finds on the page. */
async function accessibilityViolations(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(" ")}`);
}

for (const colorScheme of ["light", "dark"]) {
  test(`pages have no accessibility violations in ${colorScheme} colours`, async () => {
    const { id } = await publish({ startsIn: 600_000, perUser: 3 });
    await withPage(
      "/",
      async (page) => {
        await byTestId(page, "sale-link").first().waitFor();
        assert.deepEqual(await accessibilityViolations(page), [], "the list");
        await page.goto(`/sale?activity=${id}`);
        await untilText(page, "buy", "Not yet");
        assert.deepEqual(await accessibilityViolations(page), [], "the sale");
        await signInOnPage(page, unique("amy"));
        await page.goto("/orders");
        await untilText(page, "orders-state", "You have no orders yet");
        assert.deepEqual(await accessibilityViolations(page), [], "the orders");
        await page.goto("/admin");
        await signInAsOperator(page);
        await byTestId(page, `live-${id}`).click();
        await byTestId(page, "stock-item").waitFor();
        assert.deepEqual(await accessibilityViolations(page), [], "the operator's page");
        await byTestId(page, `edit-${id}`).click();
        await byTestId(page, "f-save").waitFor();
        assert.deepEqual(await accessibilityViolations(page), [], "the editor");
      },
      { colorScheme },
    );
  });
}

test("a sale can be bought with the keyboard alone", async () => {
  const { id } = await publish();
  await withPage(`/sale?activity=${id}`, async (page) => {
    const tabToAndPress = async (name) => {
      for (let steps = 0; steps < 30; steps += 1) {
        await page.keyboard.press("Tab");
        if ((await page.evaluate(() => document.activeElement.textContent)) === name) return page.keyboard.press("Enter");
      }
      throw new Error(`${name} cannot be reached with the keyboard`);
    };
    await byTestId(page, "buy").and(page.locator(":enabled")).waitFor();
    await tabToAndPress("Sign in");
    await page.keyboard.type(unique("kai"));
    await page.keyboard.press("Enter");
    await byTestId(page, "user").waitFor();
    await tabToAndPress("Buy");
    await page.waitForURL(/\/order\?/);
  });
});

test("a token that the server refuses opens one sign-in dialog", async () => {
  const { id } = await publish();
  const buyer = await signIn();
  const { order_no: order } = await reserve(id, buyer);
  await untilOrder(order, "pending_payment", buyer);
  for (const path of ["/orders", `/order?order_no=${order}`]) {
    await withPage("/", async (page) => {
      // A token that the page accepts and the server refuses.
      await page.evaluate(() => sessionStorage.setItem("stampede.token", "x.e30.x"));
      const refused = page.waitForResponse(
        (response) => /\/api\/orders/.test(response.url()) && response.status() === 401,
      );
      await page.goto(path);
      await refused;
      await byTestId(page, "sign-in-user").fill(buyer.user);
      await byTestId(page, "sign-in-send").click();
      await page.locator(`a[href*="${order}"], #order:not([hidden])`).first().waitFor();
      assert.equal(await page.locator("dialog").count(), 0);
    });
  }
});

test("signing out removes the user's data from the page", async () => {
  const { id } = await publish();
  const buyer = await signIn();
  const { order_no: order } = await reserve(id, buyer);
  await untilOrder(order, "pending_payment", buyer);
  await withPage("/orders", async (page) => {
    await byTestId(page, "sign-in-user").fill(buyer.user);
    await byTestId(page, "sign-in-send").click();
    await byTestId(page, "order-link").click();
    await byTestId(page, "pay-form").waitFor();
    await byTestId(page, "sign-out").click();
    await byTestId(page, "order").waitFor({ state: "hidden" });
    await byTestId(page, "sign-in-user").fill(unique("else"));
    await byTestId(page, "sign-in-send").click();
    await page.locator("#missing").waitFor();
    await byTestId(page, "sign-out").click();
    await byTestId(page, "sign-in-user").fill(buyer.user);
    await byTestId(page, "sign-in-send").click();
    await byTestId(page, "pay-form").waitFor();
    assert.equal(await page.locator("#missing").isVisible(), false);

    // A response that arrives after sign-out is not shown to the next user.
    let release;
    const released = new Promise((resolve) => (release = resolve));
    await page.route(/\/api\/orders\?/, async (route) => {
      const response = await route.fetch();
      await released;
      await route.fulfill({ response });
    }, { times: 1 });
    const asked = page.waitForRequest(/\/api\/orders\?/);
    await page.goto("/orders");
    await asked;
    const answered = page.waitForResponse(/\/api\/orders\?/);
    await byTestId(page, "sign-out").click();
    release();
    await answered;
    await byTestId(page, "sign-in-user").fill(unique("else"));
    await byTestId(page, "sign-in-send").click();
    await untilText(page, "orders-state", "You have no orders yet");
    assert.equal(await byTestId(page, "order-link").count(), 0);
  });
});

test("pages are shown in Chinese when it is chosen or preferred", async () => {
  const { id } = await publish({ startsIn: 600_000 });
  await withPage(`/sale?activity=${id}`, async (page) => {
    await untilText(page, "buy", "Not yet");
    await byTestId(page, "language").click();
    await untilText(page, "buy", "尚未开始");
    assert.equal(await page.locator("html").getAttribute("lang"), "zh-CN");
    await byTestId(page, "language").click();
    await untilText(page, "buy", "Not yet");
  });
  await withPage(`/sale?activity=${id}`, (page) => untilText(page, "buy", "尚未开始"), { locale: "zh-CN" });
});

test("pages are cached for a minute, assets are immutable, and both are compressed", async () => {
  const assets = [];
  await withPage("/", async (page) => {
    page.on("response", (response) => response.url().includes("/assets/") && assets.push(response));
    await page.reload({ waitUntil: "networkidle" });
    for (const response of assets) {
      const headers = await response.allHeaders();
      assert.equal(headers["cache-control"], "public, max-age=31536000, immutable", response.url());
      assert.match(response.url(), /\.[0-9a-f]{16}\.\w+$/);
    }
  });
  assert.ok(assets.length > 5, `only ${assets.length} assets`);
  for (const encoding of ["br", "gzip"]) {
    const response = await fetch(url, { headers: { "accept-encoding": encoding } });
    assert.equal(response.headers.get("content-encoding"), encoding);
    assert.equal(response.headers.get("cache-control"), "public, max-age=60");
    assert.equal(response.headers.get("vary"), "accept-encoding");
    const again = await fetch(url, {
      headers: { "accept-encoding": encoding, "if-none-match": response.headers.get("etag") },
    });
    assert.equal(again.status, 304);
  }
});

test("a HEAD request returns the page's length and no body", async () => {
  const page = await fetch(url, { headers: { "accept-encoding": "identity" } });
  const head = await fetch(url, { method: "HEAD", headers: { "accept-encoding": "identity" } });
  assert.equal(head.headers.get("content-length"), String((await page.arrayBuffer()).byteLength));
  assert.equal((await head.arrayBuffer()).byteLength, 0);
});

test("an unknown address shows a page with a link to all sales", async () => {
  await withPage("/no/such/page", async (page) => {
    await page.getByRole("heading", { name: "There is nothing here" }).waitFor();
    await page.getByRole("link", { name: "All sales" }).click();
    await page.getByRole("heading", { name: "Flash sales" }).waitFor();
  });
});
