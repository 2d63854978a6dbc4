// Properties of all pages: caching (A1), languages, accessibility and sign-in.

import { callAdmin, copyAsDraft, createOrder, publish, signIn, unique, url } from "../support/app.js";
import { accessibilityViolations } from "../support/axe.js";
import {
  buyNow, clickAndConfirm, deskOf, editorOf, enterName, fillInAddress, goToPayment, holdAnswers, openDesk, openSale, signInOnPage,
  untilText,
} from "../support/page.js";
import { expect, test } from "../support/test.js";

for (const colorScheme of ["light", "dark"]) {
  test(`pages have no accessibility violations in ${colorScheme} colours`, { tag: "@phone" }, async ({ newPage, words }) => {
    const { id } = await publish({ startsIn: 200_000, duration: 60_000, perUser: 3 });
    const page = await newPage("/", { colorScheme });
    await expect(page.getByTestId("sale-link").first()).toBeVisible();
    expect(await accessibilityViolations(page), "the list").toEqual([]);
    await page.goto(`/sale?activity=${id}`);
    await untilText(page, "buy", words["sign_in.take_part"]);
    expect(await accessibilityViolations(page), "the sale").toEqual([]);
    await signInOnPage(page, unique("amy"));
    await page.goto("/orders");
    await untilText(page, "orders-state", words["orders.none"]);
    expect(await accessibilityViolations(page), "the orders").toEqual([]);
    const draft = await copyAsDraft(id);
    const { order } = await createOrder();
    await openDesk(page);
    for (const [path, part] of [
      ["/admin", `row-${id}`], [deskOf(id), "stock-item"], [deskOf(draft), "checks"], [editorOf(id), "f-save"], ["/admin/orders", "lookup"],
      [`/admin/order?no=${order}`, "order-status"],
      ["/admin/inbox", "inbox-title"], ["/admin/buyers", "ban-form"], ["/admin/changes", "change"],
    ]) {
      await page.goto(path);
      await page.getByTestId(part).first().waitFor();
      expect(await accessibilityViolations(page), path).toEqual([]);
    }
    await page.goto(`/admin/preview?activity=${draft}`);
    await page.locator("#buy[data-action]").waitFor();
    expect(await accessibilityViolations(page), "the preview of a draft").toEqual([]);
  });
}

test("a sale can be bought with the keyboard alone", async ({ page }) => {
  const { id } = await publish();
  await page.goto(`/sale?activity=${id}`);
  const tabToAndPress = async (name) => {
    for (let steps = 0; steps < 30; steps += 1) {
      await page.keyboard.press("Tab");
      if ((await page.evaluate(() => document.activeElement.textContent)).startsWith(name)) return page.keyboard.press("Enter");
    }
    throw new Error(`${name} cannot be reached with the keyboard`);
  };
  await expect(page.getByTestId("buy").and(page.locator(":enabled"))).toBeVisible();
  await tabToAndPress("Sign in");
  await page.keyboard.type(unique("kai"));
  await page.keyboard.press("Enter");
  await expect(page.getByTestId("user")).toBeVisible();
  await tabToAndPress("Buy");
  await page.waitForURL(/\/order\?/);
});

test("a token that the server refuses opens one sign-in dialog", async ({ page }) => {
  const { buyer, order } = await createOrder();
  for (const path of ["/orders", `/order?order_no=${order}`]) {
    await page.goto("/");
    // A token that the page accepts and the server refuses.
    await page.evaluate(() => localStorage.setItem("stampede.token", "x.e30.x"));
    const refused = page.waitForResponse(
      (response) => /\/api\/orders/.test(response.url()) && response.status() === 401,
    );
    await page.goto(path);
    await refused;
    await enterName(page, buyer.user);
    await page.locator(`a[href*="${order}"], #order:not([hidden])`).first().waitFor();
    await expect(page.locator("dialog")).toHaveCount(0);
  }
});

/** Signs in a buyer with an order to pay, on the page of their orders, and opens the order from there. */
async function openUnpaidOrder(page) {
  const { buyer, order } = await createOrder();
  await page.goto("/orders");
  await enterName(page, buyer.user);
  await page.getByTestId("order-link").click();
  await expect(page.getByTestId("pay-form")).toBeVisible();
  return { buyer, order };
}

test("signing out removes the user's data from the page", async ({ page }) => {
  const { buyer } = await openUnpaidOrder(page);
  await page.getByTestId("sign-out").click();
  await expect(page.getByTestId("order")).toBeHidden();
  await enterName(page, unique("else"));
  await expect(page.locator("#missing")).toBeVisible();
  await page.getByTestId("sign-out").click();
  await enterName(page, buyer.user);
  await expect(page.getByTestId("pay-form")).toBeVisible();
  await expect(page.locator("#missing")).toBeHidden();

  // A response that arrives after sign-out is not shown to the next user.
  const release = await holdAnswers(page, /\/api\/orders\?/, { times: 1 });
  const asked = page.waitForRequest(/\/api\/orders\?/);
  await page.goto("/orders");
  await asked;
  const answered = page.waitForResponse(/\/api\/orders\?/);
  await page.getByTestId("sign-out").click();
  release();
  await answered;
  await enterName(page, unique("else"));
  await untilText(page, "orders-state", "You have no orders yet");
  await expect(page.getByTestId("order-link")).toHaveCount(0);
});

for (const [how, comeBack] of [
  ["goes back to the order", (page) => page.goBack({ waitUntil: "commit" })],
  ["returns to the order", (page, order) => page.goto(order)],
  ["has paid", (page, order) => page.goto(`${order}&payment=done`)],
]) {
  test(`signing out reaches a tab that was on the payment page, and ${how}`, async ({ page }) => {
    await openSale(page);
    await buyNow(page);
    const order = page.url();
    await goToPayment(page);
    const tab = await page.context().newPage();
    await tab.goto("/orders");
    await tab.getByTestId("sign-out").click();
    await expect(tab.getByTestId("sign-in")).toBeVisible();
    await tab.close();
    await comeBack(page, order);
    await page.waitForURL(/\/order\?/, { waitUntil: "commit" });
    await expect(page.getByTestId("sign-in-user")).toBeVisible();
    await expect(page.getByTestId("order")).toBeHidden();
    await expect(page.locator("#facts")).toBeEmpty();
    const tickets = () => Object.keys(sessionStorage).filter((key) => key.startsWith("stampede.order."));
    expect(await page.evaluate(tickets)).toEqual([]);
  });
}

for (const isKept of [true, false]) {
  const how = isKept ? "as it was" : "loaded again";
  test(`an order's page from the browser's history, ${how}, has nothing of the user who signed out`, async ({ page }) => {
    const { buyer, order } = await openUnpaidOrder(page);
    await fillInAddress(page);
    const form = () => page.evaluate(() => {
      const values = ["name", "street", "postal_code", "city"].map((id) => document.getElementById(id).value);
      return values.join() + document.getElementById("facts").textContent;
    });
    // The same buyer keeps what they typed, also while their token is replaced.
    const refusal = { title: "Unauthorized", status: 401, detail: "The token is not valid.", code: "unauthenticated" };
    await page.route(`**/api/orders/${order}`, (route) => route.fulfill({ status: 401, json: refusal }), { times: 1 });
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await enterName(page, buyer.user);
    await expect(page.getByTestId("pay-form")).toBeVisible();
    expect(await form()).toContain("Mia Example,1 Long Road,12345,Town");
    // A page with such a listener is not kept in the back/forward cache: it is loaded again, and what was typed restored.
    if (!isKept) await page.evaluate(() => addEventListener("unload", () => {}));
    await page.getByTestId("nav-orders").click();
    await page.waitForURL(/\/orders$/);
    await page.getByTestId("sign-out").click();
    await enterName(page, unique("bob"));
    await untilText(page, "orders-state", "You have no orders yet");
    await page.goBack({ waitUntil: "commit" });
    await page.waitForURL(/\/order\?/, { waitUntil: "commit" });
    await expect(page.locator("#missing")).toBeVisible();
    await expect(page.getByTestId("order")).toBeHidden();
    if (!isKept) await page.waitForLoadState("load");
    expect(await form()).toBe(",,,");
  });
}

test("what a buyer types before the pictures of a reloaded page are there stays", async ({ page }) => {
  await openUnpaidOrder(page);
  let release;
  const released = new Promise((resolve) => (release = resolve));
  await page.route("**/slow.png", async (route) => {
    await released;
    await route.abort();
  });
  await page.route("**/order?*", async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replace("</body>", '<img src="/slow.png" alt=""></body>');
    await route.fulfill({ response, body, headers: { ...response.headers(), "content-security-policy": "" } });
  });
  await page.reload({ waitUntil: "commit" });
  await expect(page.getByTestId("pay-form")).toBeVisible();
  await fillInAddress(page);
  release();
  await page.waitForLoadState("load");
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 100)));
  const typed = () => page.locator("#pay-form input").evaluateAll((fields) => fields.map(({ value }) => value).join());
  expect(await typed()).toContain("Long Road");
});

test("an answer that arrives after a sign-out leaves nothing in the page, and does not leave it", async ({ page }) => {
  const buyer = await signIn();
  const orders = [];
  for (let made = 0; made < 2; made += 1) orders.push((await createOrder({}, buyer.user)).order);
  for (const [order, act] of [
    [orders[0], async () => {
      await clickAndConfirm(page, "cancel");
    }],
    [orders[1], async () => {
      await fillInAddress(page);
      await page.getByTestId("pay").click();
    }],
  ]) {
    await page.goto(`/order?order_no=${order}`);
    await enterName(page, buyer.user);
    await expect(page.getByTestId("pay-form")).toBeVisible();
    const release = await holdAnswers(page, /\/(cancel|checkout)$/);
    const asked = page.waitForRequest(/\/(cancel|checkout)$/);
    await act();
    await asked;
    await page.getByTestId("sign-out").click();
    await enterName(page, unique("bob"));
    await expect(page.locator("#missing")).toBeVisible();
    const answered = page.waitForResponse(/\/(cancel|checkout)$/);
    release();
    await answered;
    await page.unrouteAll();
    // The page has handled the answer, and the poll that would follow it.
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 500)));
    expect(page.url()).toContain(`/order?order_no=${order}`);
    await expect(page.locator("#missing")).toBeVisible();
    await expect(page.locator("#facts")).toBeEmpty();
    await page.getByTestId("sign-out").click();
  }
});

test("pages are shown in Chinese when it is chosen or preferred", async ({ page, newPage }) => {
  const { id } = await publish({ startsIn: 600_000 });
  await page.goto(`/sale?activity=${id}`);
  await untilText(page, "buy", "Sign in to take part");
  await page.getByTestId("language").click();
  await untilText(page, "buy", "登录参与抢购");
  await expect(page.locator("html")).toHaveAttribute("lang", "zh-CN");
  await page.getByTestId("language").click();
  await untilText(page, "buy", "Sign in to take part");
  await untilText(await newPage(`/sale?activity=${id}`, { locale: "zh-CN" }), "buy", "登录参与抢购");
});

test("changed prices, texts and SKUs reach an open page", async ({ page }) => {
  const { id } = await publish();
  await page.goto(`/sale?activity=${id}`);
  await untilText(page, "buy", "Sign in to buy");
  await page.getByTestId("buy").focus();
  const { state, version, id: _, ...spec } = await callAdmin("GET", `/activities/${id}`);
  const [item] = spec.skus;
  const skus = [{ ...item, name: "A better item", price: 2_499 }, { ...item, sku: "other", name: "Another item" }];
  // Long before the page would load its activity anyway.
  const texts = Promise.all([
    expect(page.getByTestId("title")).toHaveText("Another title", { timeout: 9_000 }),
    expect(page.getByTestId("sku")).toContainText([/A better item.*24\.99/s, /Another item.*19\.99/s], { timeout: 9_000 }),
  ]);
  await callAdmin("PUT", `/activities/${id}`, { ...spec, title: "Another title", skus });
  await texts;
  await expect(page.getByTestId("buy").first()).toBeFocused();
});

test("a browser that blocks storage shows the pages, and buys", async ({ page }) => {
  const { id } = await publish();
  await page.addInitScript(() => {
    for (const name of ["localStorage", "sessionStorage"]) {
      Object.defineProperty(globalThis, name, {
        get() {
          throw new DOMException("Access is denied for this document.", "SecurityError");
        },
      });
    }
  });
  const user = unique("sec");
  await page.goto(`/sale?activity=${id}`);
  await signInOnPage(page, user);
  await buyNow(page);
  // Nothing is stored for the next page.
  await enterName(page, user);
  await untilText(page, "headline", "It’s yours");
  await openDesk(page);
});

test("a page whose modules do not load says so", async ({ browser, baseURL }) => {
  const { id } = await publish();
  const page = await (await browser.newContext()).newPage();
  await page.route(/\/sale-view\.[^/]+\.js$/, (route) => route.fulfill({ contentType: "text/javascript", body: "let let" }));
  await page.goto(`${baseURL}/sale?activity=${id}`);
  await expect(page.getByRole("alert")).toContainText("This page needs a newer browser");
});

test("pages are cached for a minute, assets are immutable, and both are compressed", async ({ page }) => {
  const assets = [];
  await page.goto("/");
  page.on("response", (response) => response.url().includes("/assets/") && assets.push(response));
  await page.reload({ waitUntil: "networkidle" });
  for (const response of assets) {
    const headers = await response.allHeaders();
    expect(headers["cache-control"], response.url()).toBe("public, max-age=31536000, immutable");
    expect(response.url()).toMatch(/\.[0-9a-f]{16}\.\w+$/);
  }
  expect(assets.length).toBeGreaterThan(5);
  for (const encoding of ["br", "gzip"]) {
    const response = await fetch(`${url()}/orders`, { headers: { "accept-encoding": encoding } });
    expect(response.headers.get("content-encoding")).toBe(encoding);
    expect(response.headers.get("cache-control")).toBe("public, max-age=60");
    expect(response.headers.get("vary")).toBe("accept-encoding");
    const again = await fetch(`${url()}/orders`, {
      headers: { "accept-encoding": encoding, "if-none-match": response.headers.get("etag") },
    });
    expect(again.status).toBe(304);
  }
});

test("an unknown address shows a page with a link to all sales", async ({ page }) => {
  await page.goto("/no/such/page");
  await expect(page.getByRole("heading", { name: "There is nothing here" })).toBeVisible();
  await page.getByRole("link", { name: "All drops" }).click();
  await expect(page.getByRole("heading", { name: "Drops" })).toBeVisible();
});

test("a browser that lacks dialogs is told to be replaced", async ({ newPage }) => {
  const page = await newPage();
  await page.addInitScript(() => delete globalThis.HTMLDialogElement);
  await page.goto("/");
  await expect(page.locator("#unsupported")).toContainText("This page needs a newer browser");
});
