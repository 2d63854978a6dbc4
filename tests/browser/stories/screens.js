// Pictures of the pages and their states, to look at: in `browser-screens` of Cargo's target directory.

import { resolve } from "node:path";
import { callAdmin, publish, reserve, signIn, targetDirectory, unique, untilOrder } from "../support/app.js";
import { signInAsOperator, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

for (const colorScheme of ["light", "dark"]) {
  test(`every page is pictured in ${colorScheme} colours`, { tag: "@phone" }, async ({ newPage, words }, { project }) => {
    const page = await newPage(null, { colorScheme });
    const picture = (name) => page.screenshot({
      path: resolve(targetDirectory, "browser-screens", `${name}, ${project.name}, ${colorScheme}.png`), fullPage: true, animations: "disabled",
    });
    const item = (sku, name, price) => ({ sku, name, price, currency: "EUR", total: 3, image: `/demo/${sku}.svg` });
    const skus = [{ ...item("camera", "Instant camera", 12_900), sku: "item" }, item("film", "Film, two packs", 2_499)];
    const spec = { title: "Spring sale", description: "A few hundred cameras, and film for them.", skus, perUser: 2 };
    const [scheduled, open] = [await publish({ ...spec, startsIn: 600_000 }), await publish({ ...spec, payTimeout: 600 })];
    const buyer = await signIn(unique("mia"));
    await page.goto("/");
    await page.getByTestId("sale-link").first().waitFor();
    await picture("list");
    await page.goto(`/sale?activity=${scheduled.id}`);
    await untilText(page, "title", "Spring sale");
    await picture("sale before the start, signed out");
    await page.evaluate((token) => localStorage.setItem("stampede.token", token), buyer.token);
    await page.goto(`/sale?activity=${open.id}`);
    await page.getByTestId("buy").first().and(page.locator(":enabled")).waitFor();
    await picture("sale, open");
    const order = (await reserve(open.id, buyer)).order_no;
    await untilOrder(order, "pending_payment", buyer);
    await page.goto(`/order?order_no=${order}`);
    await untilText(page, "headline", words["order.pending_payment"]);
    await picture("order, to be paid");
    await page.goto("/orders");
    await page.getByTestId("order-link").first().waitFor();
    await picture("orders");
    await page.goto(`/order?order_no=${order}`);
    await page.getByTestId("cancel").click();
    await page.getByTestId("dialog-yes").waitFor();
    await picture("order, to be cancelled");
    await page.getByTestId("dialog-yes").click();
    await untilText(page, "headline", words["order.cancelled"]);
    await picture("order, cancelled");
    await page.goto("/no-such-page");
    await picture("not found");
    await page.goto("/admin");
    await picture("operator, token");
    await signInAsOperator(page);
    await page.getByTestId(`live-${open.id}`).click();
    await page.getByTestId("stock-item").waitFor();
    const row = page.locator("tr", { has: page.getByTestId(`live-${open.id}`) });
    await expect(row, "the operator's page is English only").not.toContainText(/\p{Script=Han}/u);
    await picture("operator");
    await page.getByTestId(`edit-${open.id}`).click();
    await page.getByTestId("f-save").waitFor();
    await picture("operator, editor");
    const draft = { ...(await callAdmin("GET", `/activities/${scheduled.id}`)), id: undefined, state: undefined, version: undefined };
    const id = unique("draft");
    await callAdmin("PUT", `/activities/${id}`, draft);
    await page.goto(`/admin/preview?activity=${id}`);
    await untilText(page, "title", "Spring sale");
    await picture("operator, preview of a draft");
  });
}
