// A drop as its visitors meet it: the moment, the cards, who may take part, and who comes too late.

import { call, publish, publishEnded, reserve, signIn, stock, unique } from "../support/app.js";
import { buyNow, changeAnswers, holdAnswers, openSale, signInOnPage, untilCanBuy, untilText } from "../support/page.js";
import { openState, STATES } from "../support/states.js";
import { expect, test } from "../support/test.js";

/** Opens a state of the sale page that no server has. */
async function open(page, name) {
  await page.goto("/robots.txt");
  await openState(page, STATES.sale.find((state) => state.name === name));
}

const SIZES = ["M", "L"].map((name) => ({ sku: name, name, item: "Shirt", items: { zh: "T恤" }, price: 1_999, currency: "EUR", total: 10 }));

test("the last minute and the last seconds show in the clock and in the tab's title, and the start moves nothing", async ({ newPage }) => {
  const page = await newPage("/robots.txt");
  await open(page, "last minute");
  await expect(page.locator("#moment")).toHaveAttribute("data-moment", "minute");
  await expect(page).toHaveTitle(/^00:\d\d · Rangefinder/);
  await open(page, "last seconds");
  await expect(page.locator("#moment")).toHaveAttribute("data-moment", "seconds");
  await untilText(page, "buy", /Opens in 00:0\d/);

  const calm = await newPage("/robots.txt", { reducedMotion: "reduce" });
  await open(calm, "last seconds");
  await untilText(calm, "buy", /Opens in 00:0\d/);
  await expect(calm.locator("#moment")).toHaveAttribute("data-moment", "");
  await expect(calm).toHaveTitle(/^Rangefinder/);
});

test("SKUs of one item are options of one card, and the bar buys the chosen one, as many as chosen", async ({ page }) => {
  const { id, user } = await openSale(page, { skus: SIZES, perUser: 3 });
  await changeAnswers(page, `**/api/activities/${id}`, (sale) => ({ ...sale, skus: sale.skus.map((sku, index) => ({ ...sku, ...SIZES[index] })) }));
  await page.reload();
  await expect(page.getByTestId("sku")).toHaveCount(1);
  await untilText(page, "sku", "Shirt");
  await untilText(page, "buy", "Buy 1 · €19.99");
  await page.getByRole("radio", { name: "M" }).focus();
  await page.keyboard.press("ArrowRight");
  await page.getByRole("button", { name: "One more" }).click();
  await untilText(page, "buy", "Buy 2 · €39.98");
  await page.getByTestId("buy").click();
  await page.waitForURL(/\/order\?/);
  const { token } = await signIn(user);
  await expect.poll(() => call("GET", "/api/orders", { token })).toMatchObject({ items: [{ sku: "L", quantity: 2 }] });
});

test("a screen reader finds the time, the choices, the quantity and the button, and the ways to solve a check", async ({ page }) => {
  await open(page, "open, ready");
  await expect(page.locator("#sale")).toMatchAriaSnapshot(`
    - article:
      - heading "Rangefinder, series 2" [level=1]
      - timer
      - region "In this drop":
        - radiogroup "In this drop":
          - radio /Rangefinder body/ [checked]
          - 'group "Quantity: Rangefinder body"':
            - button "One less" [disabled]
            - status: "1"
            - button "One more"
          - group "Darkroom shirt":
            - radio "S"
            - radio "XL"
          - radio /Film, two packs €24.99 803 of 1,000 left/
      - status:
        - strong: Rangefinder body
        - text: 5 minutes to pay after you tap
      - button "Buy 1 · €1,899.00"
  `);
  for (const [name, question, field] of [
    ["check, puzzle", "Move the piece into the gap.", '- slider "Position of the piece"'],
    ["check, tapped while open", "Solve this first, then you can buy.", '- textbox "Result"'],
  ]) {
    await open(page, name);
    await expect(page.locator("#check-box")).toMatchAriaSnapshot(`
      - region "A short check":
        - status: ${question}
        - button "Close"
        - form "A short check":
          ${field}
          - button "Continue"
          - button /instead/
          - button "Skip the puzzle"
    `);
  }
});

test("a notice lies above the bar, and can be closed", { tag: "@phone" }, async ({ page }) => {
  await open(page, "somebody was faster");
  const [notice, bar] = [await page.getByTestId("notice").boundingBox(), await page.locator(".action-bar").boundingBox()];
  expect(notice.y + notice.height).toBeLessThanOrEqual(bar.y);
  await page.getByTestId("notice-close").click();
  await expect(page.getByTestId("notice")).toBeHidden();
});

test("a page without a connection says that it is offline", async ({ page }) => {
  await openSale(page);
  await untilCanBuy(page);
  await page.context().setOffline(true);
  await page.getByTestId("buy").click();
  await untilText(page, "note", "You are offline.");
  await page.context().setOffline(false);
  await page.waitForURL(/\/order\?/);
});

test("who may take part is said before the start, and why this buyer may not; the button does not buy", async ({ page }) => {
  const { id } = await publish({ startsIn: 900_000, eligibility: { members_only: true } });
  await page.goto(`/sale?activity=${id}`);
  await untilText(page, "who", "For members of the shop.");
  await changeAnswers(page, /\/ticket$/, (problem) => ({ requires: "members", ...problem }));
  await signInOnPage(page, unique("non-member"));
  await untilText(page, "note", "This account is not a member account.");
  await expect(page.getByText("This account is not a member account.")).toHaveCount(1);
  await expect(page.getByTestId("notice")).toBeHidden();
  await untilText(page, "buy", "Use another account");
  await page.getByTestId("buy").click();
  await expect(page.getByTestId("sign-in-user")).toBeVisible();
  await expect(page.getByTestId("user")).toBeHidden();
});

test("an ended sale is calm for a buyer who is signed in: no error, no stock, and what is next", async ({ page }) => {
  const id = await publishEnded();
  await page.goto(`/sale?activity=${id}`);
  await signInOnPage(page, unique("late"));
  await page.reload();
  await untilText(page, "outcome", "This drop has ended");
  await expect(page.getByTestId("buy")).toHaveText(/^(Next drop: |All drops)/);
  await page.waitForLoadState("networkidle");
  await expect(page.getByTestId("notice")).toBeHidden();
  await expect(page.getByTestId("left").filter({ visible: true })).toHaveCount(0);
  await expect(page.getByTestId("more").filter({ visible: true })).toHaveCount(0);
});

test("who comes after the last unit reads until when units may come back, and what is next", async ({ page }) => {
  await open(page, "sold out, arriving late");
  await untilText(page, "outcome", /What is not paid for within 5 minutes comes back here, until \d\d:\d\d/);
  await expect(page.getByTestId("clock").filter({ visible: true })).toHaveCount(0);
  await expect(page.getByTestId("more").filter({ visible: true })).toHaveCount(0);
  await expect(page.locator(".is-chosen")).toHaveCount(0);
  await untilText(page, "note", /It starts tomorrow \d\d:\d\d/);
  await untilText(page, "buy", "Next drop: Pocket projector");
  await page.getByTestId("buy").click();
  await page.waitForURL(/\/sale\?activity=next$/);
});

test("the bar says what it buys, and leads from an item that is sold out to those that are left", async ({ page }) => {
  await open(page, "chosen SKU sold out");
  await untilText(page, "note", /Rangefinder body.*Sold out/);
  await page.getByTestId("buy").click();
  await expect(page.getByTestId("sku").last()).toBeInViewport();
  await page.getByTestId("sku").last().click();
  await untilText(page, "buy", "Buy 1 · €24.99");
  await untilText(page, "note", /Film, two packs.*5 minutes to pay after you tap/);
});

test("the bar of a buyer who has the most that one person can buy says so, and leads to the orders", async ({ page }) => {
  await open(page, "limit reached");
  await untilText(page, "note", /Rangefinder body.*You already have the most one person can buy\./);
  await expect(page.getByTestId("notice")).toBeHidden();
  await page.getByTestId("buy").click();
  await page.waitForURL(/\/orders$/);
});

test("a button that works, or waits for the start, does not look like a refusal", async ({ page }) => {
  const looks = new Set();
  for (const name of ["eight minutes before, ready", "sending", "getting ready"]) {
    await open(page, name);
    looks.add(await page.getByTestId("buy").evaluate((button) => getComputedStyle(button).backgroundColor));
  }
  expect([...looks]).toHaveLength(3);
  // A frame would make a button of what nobody can press.
  await open(page, "paused");
  await expect(page.getByTestId("buy")).toHaveCSS("border-color", "rgba(0, 0, 0, 0)");
});

test("the list says that an open sale is sold out", async ({ page }) => {
  const { id } = await publish({ total: 1 });
  await reserve(id, await signIn());
  await expect(async () => {
    await page.goto("/");
    await expect(page.locator(`a[href$="activity=${id}"]`)).toContainText("Sold out", { timeout: 2_000 });
  }).toPass({ timeout: 30_000 });
});

test("the list shows the next drop large with its countdown, what is left of those that run, and folds those that ended", async ({ page }) => {
  await page.goto("/robots.txt");
  await openState(page, STATES.list[0]);
  await expect(page.locator("#next-drop .clock")).toHaveText(/^0[12]:\d\d:\d\d$/);
  await expect(page.locator("#running")).toContainText(/803 of 1,000 left.*Only 7 left.*Sold out/s);
  await expect(page.getByRole("link", { name: "Lens cap" })).toBeHidden();
  await page.getByText("Ended", { exact: true }).click();
  await expect(page.getByRole("link", { name: "Lens cap" })).toBeVisible();
});

test("times to pay are in whole units, and the sale's times have a day and a zone", async ({ page }) => {
  const { id } = await publish({ payTimeout: 48, refund_window_seconds: 14 * 86_400 });
  await page.goto(`/sale?activity=${id}`);
  await untilText(page, "note", "48 seconds to pay after you tap");
  await expect(page.getByText("Refunds within 14 days of payment.")).toBeVisible();
  await untilText(page, "when", /^(Today|Yesterday|Tomorrow) \d\d:\d\d( – \w+ |–)\d\d:\d\d \(.+\)/);
});

test("a visitor who is signed out while the sale is open is asked to sign in to buy, and buys", async ({ page }) => {
  const { id } = await publish();
  await page.goto(`/sale?activity=${id}`);
  await untilText(page, "buy", "Sign in to buy");
  await signInOnPage(page, unique("out"));
  await page.getByTestId("sign-out").click();
  await untilText(page, "buy", "Sign in to buy");
  await page.getByTestId("buy").click();
  await page.getByTestId("sign-in-user").fill(unique("in"));
  await page.getByTestId("sign-in-send").click();
  await page.waitForURL(/\/order\?/);
  expect((await stock(id)).held).toBe(1);
});

test("the shop's word is shown in the visitor's language", async ({ newPage }) => {
  for (const [locale, text] of [["en-GB", "We start ten minutes late"], ["zh-CN", "开售推迟十分钟"]]) {
    const page = await newPage("/robots.txt", { locale });
    await open(page, "announcement, long texts");
    await untilText(page, "announcement", text);
  }
});

test("what the server wrote into the page is shown before the first answer", async ({ page }) => {
  const { id } = await publish({ title: "Written by the server" });
  const activity = await call("GET", `/api/activities/${id}`);
  await page.route("**/sale?*", async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replace(/<script type="application\/json" id="first-data">.*?<\/script>/s, "")
      .replace("</head>", () => `<script type="application/json" id="first-data">${JSON.stringify({ activity })}</script></head>`);
    await route.fulfill({ response, body });
  });
  const release = await holdAnswers(page, "**/api/**");
  await page.goto(`/sale?activity=${id}`);
  await untilText(page, "title", "Written by the server");
  await untilText(page, "sku", "€19.99");
  release();
  await untilText(page, "buy", "Sign in to buy");
});

test("a tap before the check is solved leads to it and says so, also after it was closed", async ({ page }) => {
  await openSale(page, { human_check: "captcha" });
  await page.getByTestId("check-close").click();
  await expect(page.getByTestId("puzzle")).toBeHidden();
  await untilText(page, "buy", "Solve the short check");
  await page.getByTestId("buy").click();
  await expect(page.getByTestId("check-status")).toHaveText("Solve this first, then you can buy.");
  await expect(page.locator("#puzzle-answer")).toBeFocused();
});

test("the chosen kind of puzzle stays after a wrong answer", async ({ page }) => {
  await openSale(page, { human_check: "captcha" });
  await page.getByTestId("puzzle-other").click();
  const sum = page.locator('#puzzle-answer[inputmode="numeric"]');
  await sum.fill("-77");
  const refused = page.waitForResponse(/\/ticket$/);
  const asked = page.waitForRequest(/\/challenge$/);
  await page.getByTestId("puzzle-send").click();
  await refused;
  expect((await asked).postDataJSON()).toMatchObject({ captcha: "sum" });
  await untilText(page, "check-status", "That was not right.");
  await expect(sum).toHaveValue("");
});

test("the piece of a puzzle is dragged itself", async ({ page }) => {
  await openSale(page, { human_check: "captcha" });
  const piece = page.locator(".puzzle-piece");
  const { x, y, width, height } = await piece.boundingBox();
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x + width / 2 + 80, y + height / 2 + 10, { steps: 8 });
  await page.mouse.up();
  expect(Math.round((await piece.boundingBox()).x - x)).toBeCloseTo(80, -1);
});

test("a buyer who cannot see lets the device do the work, whatever the check", async ({ page }) => {
  await openSale(page, { human_check: "captcha" });
  const asked = page.waitForRequest(/\/ticket$/);
  await page.getByRole("button", { name: "Skip the puzzle" }).click();
  expect((await asked).postDataJSON()).toHaveProperty("altcha");
  await buyNow(page);
});

test("a sale without a picture of its own has that of its first SKU in the list", async ({ page }) => {
  const item = { name: "Item", price: 1_999, currency: "EUR", total: 10 };
  const { id } = await publish({ skus: [{ ...item, sku: "plain" }, { ...item, sku: "film", image: "/demo/film.svg" }] });
  await expect(async () => {
    await page.goto("/");
    await expect(page.locator(`a[href$="activity=${id}"] img`)).toHaveAttribute("src", "/demo/film.svg", { timeout: 2_000 });
  }).toPass({ timeout: 30_000 });
});
