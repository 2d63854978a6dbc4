// How the buyers' pages look in single states: what is in its place, and what is the next step.

import { openState, STATES } from "../support/states.js";
import { expect, test } from "../support/test.js";
import { untilText } from "../support/page.js";

/** A page in a state of a kind of page that no server has. */
async function openIn(newPage, kind, name, options = {}) {
  const page = await newPage("/robots.txt", options);
  await openState(page, STATES[kind].find((state) => state.name === name));
  return page;
}

const boxOf = (page, selector) => page.locator(selector).first().boundingBox();

const PHONE = { viewport: { width: 390, height: 844 } };
const TABLET = { viewport: { width: 820, height: 1_180 } };

test("the first item is visible on a phone without scrolling, and no time takes two lines", async ({ newPage }) => {
  const page = await openIn(newPage, "sale", "eight minutes before, ready", PHONE);
  const [item, bar, when] = [await boxOf(page, ".sku-name"), await boxOf(page, ".action-bar"), await boxOf(page, "#when")];
  expect(item.y + item.height).toBeLessThan(bar.y);
  expect(when.height).toBeLessThan(30);
});

test("a notice lies in the column of the button", async ({ newPage }) => {
  for (const [kind, name, button] of [["sale", "somebody was faster", "#buy"], ["order", "does not answer", "#pay"]]) {
    const page = await openIn(newPage, kind, name);
    const [notice, below] = [await boxOf(page, "#notice"), await boxOf(page, button)];
    expect(notice.x + notice.width, name).toBeCloseTo(below.x + below.width, 0);
    expect(notice.y + notice.height, name).toBeLessThan(below.y);
  }
});

test("a tablet shows a sale in one column, a desktop the text beside the items", async ({ newPage }) => {
  const left = async (page, selector) => (await boxOf(page, selector)).x;
  const tablet = await openIn(newPage, "sale", "open, ready", TABLET);
  expect(await left(tablet, "#title")).toBe(await left(tablet, "#picture"));
  const desktop = await openIn(newPage, "sale", "open, ready");
  expect(await left(desktop, "#description")).toBe(await left(desktop, "#picture"));
  expect(await left(desktop, "#skus")).toBeGreaterThan(await left(desktop, "#description"));
});

test("an item has the stock of all of its sizes until one is chosen, and only the chosen card has a quantity", async ({ newPage }) => {
  const page = await openIn(newPage, "sale", "open, ready", PHONE);
  const shirt = page.getByTestId("sku").nth(1);
  await expect(shirt.getByTestId("left")).toHaveText("46 of 200 left");
  await expect(page.getByTestId("more").filter({ visible: true })).toHaveCount(1);
  await shirt.getByText("L", { exact: true }).click();
  await expect(shirt.getByTestId("left")).toHaveText("31 of 50 left");
  await expect(shirt.getByTestId("more")).toBeVisible();
  const [sizes, quantity] = [await shirt.locator(".options").boundingBox(), await shirt.locator(".stepper").boundingBox()];
  expect(quantity.y).toBeLessThan(sizes.y + sizes.height);
});

test("a long announcement shows that there is more, and moves nothing when it opens", async ({ newPage }) => {
  const page = await openIn(newPage, "sale", "announcement, long texts", PHONE);
  const announcement = page.getByTestId("announcement");
  await expect(announcement).toHaveClass(/is-long/);
  const [before, title] = [await announcement.boundingBox(), await boxOf(page, "#title")];
  await announcement.focus();
  expect((await announcement.boundingBox()).height).toBeGreaterThan(before.height);
  expect(await boxOf(page, "#title")).toEqual(title);
});

test("a check that is open has the only primary button, and asks again when the piece has not moved", async ({ newPage }) => {
  const page = await openIn(newPage, "sale", "check, puzzle");
  const ground = (selector) => page.locator(selector).evaluate((button) => getComputedStyle(button).backgroundColor);
  const primary = await ground(".puzzle .primary");
  await expect.poll(() => ground("#buy")).not.toBe(primary);
  await page.getByTestId("puzzle-send").click();
  await expect(page.getByTestId("check-status")).toHaveText("Move the piece into the gap.");
  await expect(page.getByRole("slider", { name: "Position of the piece" })).toBeFocused();
  await page.getByTestId("check-close").click();
  await expect.poll(() => ground("#buy")).toBe("rgb(199, 54, 31)");
});

test("a dialog that ends an order leads to keeping it", async ({ newPage }) => {
  const page = await openIn(newPage, "order", "cancel?");
  await expect(page.getByTestId("dialog-no")).toHaveClass(/primary/);
  await expect(page.getByTestId("dialog-no")).toBeFocused();
  await expect(page.getByTestId("dialog-yes")).not.toHaveClass(/primary/);
});

test("an order's bar is as wide as its page, and says where its button leads, not again what the page says", async ({ newPage }) => {
  const page = await openIn(newPage, "order", "cancelled");
  const [bar, order] = [await boxOf(page, ".action-bar-content"), await boxOf(page, "#order")];
  expect(bar.width).toBe(order.width);
  await expect(page.getByTestId("bar")).toContainText(/Rangefinder, series 2.*Until today/s);
  await expect(page.getByTestId("bar")).not.toContainText(/Cancelled|1 ×/);
});

test("Chinese texts have their own spaces, and a free order's time is one to confirm", async ({ newPage }) => {
  const chinese = { locale: "zh-CN" };
  const sale = await openIn(newPage, "sale", "open, ready", chinese);
  await untilText(sale, "note", "抢到后请在 5 分钟内付款");
  await expect(sale.locator("#rules")).toHaveText("每人限购 2 件。抢购成功后，商品为您保留 5 分钟，请及时付款。付款后 14 天内可申请退款。");
  const free = await openIn(newPage, "order", "free", chinese);
  await untilText(free, "headline", /^请在 4:\d\d 内确认$/);
});

test("the list says what a tap does, and names its running sales once", async ({ newPage }) => {
  const page = await openIn(newPage, "list", "only running");
  await expect(page.locator("#running-title")).toHaveText("Also on now");
  await expect(page.locator(".drop, .tile-link:not(.is-out)").getByText("Go to the drop").first()).toBeVisible();
  await expect(page.locator(".tile-link.is-out")).toContainText("Sold out");
  await expect(page.locator(".tile-link.is-out")).not.toContainText("Go to the drop");
});

test("in Chinese an address begins with the name and the phone, and ends with the street", async ({ newPage }) => {
  const page = await openIn(newPage, "order", "to be paid", { locale: "zh-CN" });
  const lines = await page.locator("#address :is(input, select):not([type=checkbox])").evaluateAll((fields) => fields.map(({ id }) => id));
  expect(lines).toEqual(["name", "phone", "country", "state", "city", "postal_code", "street"]);
});

test("what is sold out or over is pale in either colour, without a meter or boxes of what can no longer be chosen", async ({ newPage }) => {
  const opacities = [];
  for (const colorScheme of ["light", "dark"]) {
    const page = await openIn(newPage, "sale", "chosen SKU sold out", { colorScheme });
    const out = page.locator(".sku.is-out").first();
    opacities.push(await out.locator(".picture").evaluate((picture) => Number(getComputedStyle(picture).opacity)));
    await expect(out.locator(".meter")).toBeHidden();
  }
  expect(opacities[1]).toBeLessThan(opacities[0]);
  const over = await openIn(newPage, "sale", "ended");
  const [first, second] = await Promise.all([0, 1].map((index) => over.getByTestId("option").nth(index).boundingBox()));
  expect(second.x - first.x - first.width).toBeLessThan(16);
  expect(first.width).toBeLessThan(24);
});

test("nothing of the page behind a check stays bright, and the button under it leads to the check", async ({ newPage }) => {
  const page = await openIn(newPage, "sale", "check, tapped while open");
  // The mean brightness of the bar's left end, where nothing stands.
  const brightness = async () => {
    const { x, y, height } = await boxOf(page, ".action-bar");
    const image = await page.screenshot({ clip: { x, y, width: 8, height } });
    return page.evaluate(async (bytes) => {
      const bitmap = await createImageBitmap(new Blob([new Uint8Array(bytes)]));
      const context = new OffscreenCanvas(8, 8).getContext("2d");
      context.drawImage(bitmap, 0, 0, 8, 8);
      return context.getImageData(0, 0, 8, 8).data.reduce((sum, value) => sum + value) / 256;
    }, [...image]);
  };
  const open = await brightness();
  await page.getByTestId("check-close").click();
  await expect(page.getByTestId("puzzle")).toBeHidden();
  expect(open).toBeLessThan(await brightness() - 50);
});

test("neither the total nor what it includes breaks in a phone's receipt", async ({ newPage }) => {
  const page = await openIn(newPage, "order", "paid", PHONE);
  const parts = page.locator("#facts .whole");
  await expect(parts).toHaveText(["€1,899.00", "Tax and shipping included"]);
  for (const part of await parts.all()) expect((await part.boundingBox()).height).toBeLessThan(24);
});
