// Long words, such as addresses in a description: every page stays as wide as the screen.

import { devices } from "@playwright/test";
import { copyAsDraft, createOrder, unique } from "../support/app.js";
import { deskOf, editorOf, openDesk, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

const WORD = `https://shop.example/${"ALongAddressWithoutASpace".repeat(7)}`;

for (const [device, options] of [["phone", devices["Pixel 7"]], ["desktop", { viewport: { width: 1280, height: 720 } }]]) {
  test(`no page is wider than the screen of a ${device} because of a long word`, async ({ newPage }) => {
    const item = { sku: "item", name: WORD.slice(0, 200), price: 1_999, currency: "EUR", total: 10 };
    const texts = { title: WORD.slice(0, 200), description: `Look at ${WORD}`, skus: [item] };
    const { id, buyer, order } = await createOrder({ ...texts, perUser: 2 }, unique(`a-user-with-a-long-name-${"x".repeat(60)}`));
    const page = await newPage("/", options);
    await page.evaluate((token) => localStorage.setItem("stampede.token", token), buyer.token);
    const staysNarrow = async (what) =>
      expect(await page.evaluate(() => document.documentElement.scrollWidth), what).toBeLessThanOrEqual(options.viewport.width);

    await page.goto("/");
    await page.locator(`a[href$="activity=${id}"]`).waitFor();
    await staysNarrow("the list of sales");
    await page.goto(`/sale?activity=${id}`);
    await page.getByTestId("buy").and(page.locator(":enabled")).waitFor();
    await staysNarrow("the sale");
    const refusal = { status: 403, code: "a_code_of_a_proxy", detail: WORD };
    await page.route(/\/api\/activities\/[^/]+\/orders$/, (route) => route.fulfill({ status: 403, json: refusal }));
    await page.getByTestId("buy").click();
    await untilText(page, "notice", WORD);
    await staysNarrow("the sale with a notice");
    await page.goto(`/order?order_no=${order}`);
    await untilText(page, "headline", "It’s yours");
    await untilText(page, "bought", item.name);
    await staysNarrow("the order");
    await page.goto("/orders");
    await untilText(page, "order-link", item.name);
    await staysNarrow("the orders");
    await openDesk(page);
    for (const [path, part] of [
      ["/admin", `row-${id}`], [deskOf(id), "stock-item"], [editorOf(id), "f-save"], [`/admin/orders?activity=${id}`, "order-row"],
      [`/admin/order?no=${order}`, "timeline"], ["/admin/changes", "change"],
    ]) {
      await page.goto(path);
      await page.getByTestId(part).first().waitFor();
      await staysNarrow(path);
    }
    const draft = await copyAsDraft(id);
    await page.goto(`/admin/preview?activity=${draft}`);
    await page.getByTestId("buy").waitFor();
    await staysNarrow("the preview");
  });
}
